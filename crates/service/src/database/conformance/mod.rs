//! Conformance tests of every engine, through the traits alone. `conformance!` runs all tests for an engine.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test may end when its set-up fails")]

pub(crate) mod accounts;
pub(crate) mod adjustments;
pub(crate) mod admin;
pub(crate) mod catalog;
pub(crate) mod create_keys;
pub(crate) mod folders;
pub(crate) mod key_rules;
pub(crate) mod levers;
pub(crate) mod money;
pub(crate) mod queue;
pub(crate) mod retention;
pub(crate) mod serving;
pub(crate) mod state_table;
pub(crate) mod targets;
pub(crate) mod transfer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;

use crate::accounts::{Account, AccountId, NewAccount, OPERATOR, Scope};
use crate::catalog::{Existing, NewModel, NewVersion};
use crate::clock::Moment;
use crate::database::Database;
use crate::files::{Replaces, Stored, Target, category};
use crate::ledger::Money;
use crate::queue::{LeaseRules, NewTask};
use crate::random::Randomness;

pub(crate) const RULES: LeaseRules = LeaseRules {
    length: Duration::from_secs(30),
    attempts: 2,
    max_running: u32::MAX,
    expired_before: Moment(i64::MAX),
};

pub(crate) const MODEL: &str = "echo";

#[async_trait]
pub(crate) trait Engine: Send + Sync + Sized {
    fn another(&self) -> Self;
    async fn open(&self) -> Arc<dyn Database>;
    async fn execute(&self, sql: &str);
}

/// Runs all conformance tests for an engine, given an attribute of each test and an expression that creates an empty
/// database.
macro_rules! conformance {
    ($attribute:meta, $engine:expr) => {
        conformance! { $attribute, $engine;
            accounts: a_key_cannot_take_the_identifier_of_another
                several_starts_at_once_credit_the_first_account_once
                a_start_adds_a_key_until_one_was_shown
                a_first_key_that_was_revoked_stays_revoked
                queued_tasks_of_a_suspended_account_wait_until_it_is_resumed
                a_key_shows_the_state_of_its_account_and_closing_is_for_good
                unused_targets_of_a_suspended_account_are_void_for_good;
            adjustments: a_credit_that_is_sent_again_is_made_once
                credits_with_one_reference_at_the_same_moment_are_made_once
                a_debit_takes_what_its_purse_holds_and_no_more
                movements_without_a_task_are_listed_newest_first;
            admin: keys_are_listed_newest_first_and_found_by_a_beginning
                memberships_are_listed_from_both_sides
                a_change_of_a_model_leaves_what_it_does_not_name
                nodes_are_listed_with_their_keys
                tasks_of_all_accounts_are_listed_newest_first
                a_charge_is_refunded_once_to_the_purses_that_it_came_from
                old_movements_are_added_up_and_every_balance_stays;
            catalog: every_list_is_what_sorting_all_models_would_give
                a_search_finds_the_models_that_contain_its_text_whatever_that_is
                the_next_page_after_a_change_of_the_catalog_shows_it
                a_publisher_changes_what_it_states_anew
                what_an_operator_decided_of_a_built_in_model_survives_a_restart;
            create_keys: a_create_that_is_sent_again_gets_its_task_whatever_happened_since
                creates_with_one_key_at_the_same_moment_make_one_task
                a_create_that_was_refused_leaves_its_key_unused
                a_key_belongs_to_its_account_and_to_one_request
                a_key_is_remembered_for_a_day_and_can_be_used_after_that
                no_write_that_forgets_keys_is_long;
            folders: every_page_of_a_folder_is_the_right_one_whatever_was_stored_and_deleted_between;
            key_rules: rules_of_a_key_are_kept
                keys_of_one_name_at_the_same_moment_are_made_once
                creates_side_by_side_never_exceed_the_limit_of_their_key
                a_limit_counts_the_tasks_of_its_key_and_day_that_cost_something;
            levers: an_operator_cancels_queued_tasks_and_fails_running_ones
                a_requeued_task_goes_to_another_node_and_counts_no_attempt
                a_requeue_is_no_lease_however_often_it_is_repeated
                tasks_of_a_paused_model_wait_and_those_of_others_run
                the_queue_is_as_old_as_its_oldest_task_that_may_run
                the_log_of_the_operator_is_listed_newest_first;
            money: storage_of_any_size_is_charged_for_any_time
                storage_is_not_charged_twice_after_the_clock_was_set_back
                a_clock_that_jumps_makes_no_large_bill
                a_debt_is_paid_with_the_next_bill
                an_account_that_cannot_be_charged_does_not_keep_the_others_free
                an_operator_deletes_the_file_of_anyone
                a_member_pays_for_what_it_uploads_for_its_organization
                an_organization_pays_for_the_files_of_a_member_who_has_left
                who_pays_for_a_file_may_delete_it
                a_credit_beyond_the_largest_amount_is_refused_in_plain_words
                what_a_task_holds_can_always_come_back
                earnings_and_revenue_stop_at_the_largest_amount_and_nobody_else_notices
                sums_beyond_the_largest_amount_are_audited
                damage_that_makes_a_sum_more_than_an_integer_is_reported;
            queue: accounts_take_turns_however_many_tasks_each_has
                a_claim_for_many_slots_gives_each_a_task_of_its_own
                an_account_has_so_many_unfinished_and_so_many_running_tasks
                a_released_lease_is_free_at_once_and_does_not_count
                a_lease_that_ends_in_order_is_released_once_however_often_that_is_reported
                a_lease_that_has_expired_counts_although_its_node_leaves_in_order_later
                a_node_that_leaves_costs_no_attempt_and_one_that_dies_does
                the_queue_tells_how_many_tasks_wait_and_run_and_since_when
                a_node_that_is_not_registered_gets_no_task
                nodes_that_were_alive_before_a_downtime_have_time_to_come_back
                a_claim_finds_the_task_behind_many_that_were_leased_too_often
                a_task_that_cannot_be_failed_keeps_no_other_task_from_being_claimed_or_failed
                a_text_holds_any_character_and_finds_nothing_else
                a_task_that_no_live_node_serves_fails_and_its_money_is_released
                a_task_that_no_node_takes_over_for_long_fails_although_a_node_says_that_it_serves_the_model
                a_lease_that_expired_in_an_outage_is_left_to_its_node
                a_lease_and_a_node_of_a_clock_that_was_ahead_end_as_others_do
                a_stuck_node_does_not_keep_a_task_that_it_leased_while_the_clock_was_ahead
                a_task_that_waited_for_too_long_fails_unbilled
                a_queued_task_that_cannot_be_failed_keeps_no_other_one
                tasks_of_a_dead_node_do_not_use_up_what_an_account_may_run
                a_lease_has_no_more_outputs_than_its_limit_though_they_come_at_once
                outputs_that_a_result_does_not_name_are_removed
                no_write_that_removes_outputs_is_long
                outputs_of_a_success_and_logs_stay_until_they_are_old;
            retention: retention_deletes_the_oldest_tasks_and_every_balance_still_adds_up
                retention_deletes_behind_a_task_that_ended_later
                retention_deletes_more_than_one_transaction_takes
                retention_deletes_around_any_number_of_tasks_that_have_not_ended
                retention_adds_up_sums_beyond_the_largest_amount;
            serving: a_node_is_there_for_the_models_of_the_slots_that_were_seen
                a_slot_passes_accounts_over;
            targets: totals_are_those_of_all_accounts
                a_quota_counts_what_is_stored_and_what_unused_targets_permit
                a_target_awaits_an_upload_until_it_has_stored_its_file_or_is_void
                uploads_are_awaited_in_a_folder_by_an_owner_or_for_an_object
                an_upload_that_is_found_late_replaces_no_later_one
                an_account_has_so_many_unused_targets
                no_write_that_forgets_targets_is_long;
            transfer: everything_moves_to_another_engine_and_back
                rows_that_were_changed_are_refused_and_nothing_stays;
        }

        #[test]
        #[$attribute]
        fn whatever_happens_tasks_stay_in_the_state_table_and_money_adds_up() {
            $crate::database::conformance::state_table::holds(|| $engine);
        }
    };
    ($attribute:meta, $engine:expr; $($module:ident: $($test:ident)*;)*) => { $( mod $module { $(
        #[tokio::test]
        #[$attribute]
        async fn $test() {
            $crate::database::conformance::$module::$test($engine).await;
        }
    )* } )* };
}
pub(crate) use conformance;

pub(crate) struct Fixture<E> {
    pub(crate) engine: E,
    pub(crate) database: Arc<dyn Database>,
    pub(crate) random: Randomness,
    pub(crate) operator: AccountId,
    pub(crate) customer: AccountId,
    pub(crate) version: i64,
}

impl<E: Engine> Fixture<E> {
    pub(crate) async fn new(engine: E) -> Self {
        let database = engine.open().await;
        let random = Randomness::new(Some(1));
        let operator = account(&*database, &random, OPERATOR).await.id;
        let customer = account(&*database, &random, "customer").await.id;
        database.publish(&[model(MODEL, operator)], Existing::Keep).await.unwrap();
        let version = database.published(MODEL).await.unwrap().unwrap().version.id;
        Self { engine, database, random, operator, customer, version }
    }

    async fn crash(&mut self) {
        self.database = self.engine.open().await;
    }

    pub(crate) fn task(&self, price: Money) -> NewTask {
        NewTask {
            id: self.random.uuid().unwrap(),
            account: self.customer,
            model: MODEL.to_owned(),
            version: self.version,
            publisher: self.operator,
            price,
            input: "{}".to_owned(),
            key: None,
            traceparent: None,
            spending: None,
        }
    }

    async fn account(&self, username: &str) -> Account {
        account(&*self.database, &self.random, username).await
    }

    pub(crate) async fn upload(&self, owner: AccountId, payer: AccountId, file: &File, now: Moment) {
        let target = self.add_target(owner, payer, file, now).await;
        let stored = self.store(&target, &self.random.uuid().unwrap(), now).await;
        assert!(matches!(stored, Stored::Done { .. }));
    }

    async fn add_target(
        &self,
        owner: AccountId,
        payer: AccountId,
        file: &File,
        expires_at: Moment,
    ) -> Target {
        let target = Target {
            id: self.random.uuid().unwrap(),
            owner,
            payer,
            bucket: file.bucket(owner),
            folder: file.folder.to_owned(),
            key: file.key(),
            mime: file.mime.to_owned(),
            size: file.size,
            expires_at,
            is_void: false,
        };
        assert!(self.database.add_target(&target, u32::MAX).await.unwrap());
        target
    }

    async fn store(&self, target: &Target, blob: &str, now: Moment) -> Stored {
        let object = target.object(blob.to_owned(), String::new(), now);
        let id = self.random.uuid().unwrap();
        self.database.store_upload(&target.id, &id, &object, Replaces::Any).await.unwrap()
    }

    async fn delete(&self, owner: AccountId, file: &File, now: Moment) {
        let deleted =
            self.database.delete_file(Some(owner), &file.bucket(owner), &file.key(), now).await.unwrap();
        assert!(deleted.is_some());
    }

    async fn assert_books_are_right(&self) {
        assert_eq!(self.database.audit().await.unwrap().faults, Vec::<String>::new());
    }
}

#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) folder: &'static str,
    pub(crate) name: String,
    pub(crate) mime: &'static str,
    pub(crate) size: u64,
}

impl File {
    pub(crate) fn of_size(size: u64) -> Self {
        Self { folder: "samples", name: "file".to_owned(), mime: "text/plain", size }
    }

    fn bucket(&self, owner: AccountId) -> String {
        format!("bucket-{}", owner.0)
    }

    fn key(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    fn category(&self) -> String {
        category(self.mime)
    }
}

async fn account(database: &dyn Database, random: &Randomness, username: &str) -> Account {
    let account = NewAccount::draw(username, Scope::Personal, random).unwrap();
    database.add_account(&account, Moment(0)).await.unwrap()
}

pub(crate) fn model(id: &str, owner: AccountId) -> NewModel {
    NewModel {
        id: id.to_owned(),
        name: id.to_owned(),
        owner,
        description: "Gives back what it is given.".to_owned(),
        is_official: true,
        is_verified: true,
        is_public: true,
        is_playground: false,
        price: Money::ZERO,
        metadata: RawValue::from_string("{}".to_owned()).unwrap(),
        likes: 0,
        downloads: 0,
        created_at: Moment(0),
        updated_at: Moment(0),
        version: NewVersion {
            commit_hash: "one".to_owned(),
            input_format: "{}".to_owned(),
            output_format: "{}".to_owned(),
        },
    }
}
