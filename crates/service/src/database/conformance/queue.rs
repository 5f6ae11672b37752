//! Conformance of the queue: fair scheduling, limits of accounts, releases, and abandoned tasks.

use std::collections::BTreeSet;
use std::iter;
use std::time::Duration;

use futures_util::future::join_all;

use super::{Engine, Fixture, MODEL, RULES, model};
use crate::accounts::{AccountId, NewKey};
use crate::catalog::Existing;
use crate::clock::Moment;
use crate::files::{LOGS, Object, OutputLimits, OutputStored};
use crate::ledger::{Credit, Money};
use crate::queue::{
    Abandoned, Cancel, Claim, Created, Ending, InsufficientBalance, Lease, LeaseRules, LeaseState, ModelLoad,
    NewTask, NodeEnd, Slot, Status,
};

const NOW: Moment = Moment(1_000_000);

const NONE: Abandoned = Abandoned {
    expired_before: Moment(0),
    live_since: Moment(0),
    unclaimed_before: Moment(0),
    latest: Moment(i64::MAX),
};

impl<E: Engine> Fixture<E> {
    pub(crate) async fn create(&self, account: AccountId, max: u32) -> Created {
        let task = NewTask { account, ..self.task(Money::ZERO) };
        self.database.create_task(&task, InsufficientBalance::Refuse, max, NOW).await.unwrap()
    }

    pub(super) async fn claim(&self, rules: LeaseRules, slots: &[Slot], now: Moment) -> Vec<Option<Lease>> {
        for slot in slots {
            self.database.register(&slot.node, None, &slot.models, now).await.unwrap();
        }
        let claims = self.database.claim(slots, rules, now).await.unwrap();
        let lease = |claim| match claim {
            Claim::Leased(lease) => Some(lease),
            Claim::NoTask => None,
            Claim::UnknownNode => panic!("the node is registered"),
        };
        claims.into_iter().map(lease).collect()
    }

    pub(super) async fn claim_one(&self, now: Moment) -> Option<Lease> {
        self.claim(RULES, &[slot("node")], now).await.pop().unwrap()
    }

    async fn owner(&self, accounts: &[AccountId], lease: &Lease) -> usize {
        for (index, account) in accounts.iter().enumerate() {
            if self.database.task(*account, &lease.task).await.unwrap().is_some() {
                return index;
            }
        }
        panic!("the task has no owner")
    }

    pub(super) async fn finish(&self, lease: &Lease, now: Moment) {
        self.end(lease, &Ending::Output("{}".to_owned()), now).await;
    }

    pub(super) async fn end(&self, lease: &Lease, ending: &Ending, now: Moment) {
        assert!(self.database.finish("node", &lease.task, lease.attempt, ending, now).await.unwrap());
    }
}

pub(crate) fn slot(node: &str) -> Slot {
    Slot {
        node: node.to_owned(),
        models: [MODEL.to_owned()].into(),
        max_running: u32::MAX,
        passed_over: Vec::new(),
    }
}

pub(crate) async fn a_text_holds_any_character_and_finds_nothing_else(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    assert_eq!(fixture.create(fixture.customer, u32::MAX).await, Created::Queued);
    let lease = fixture.claim_one(NOW).await.unwrap();
    for id in ["\0", &format!("{}\0", lease.task)] {
        assert!(fixture.database.task(fixture.customer, id).await.unwrap().is_none());
        assert!(fixture.database.published(id).await.unwrap().is_none());
        assert_eq!(fixture.database.cancel(fixture.customer, id, NOW).await.unwrap(), Cancel::Unknown);
    }
    // Special characters in a node's message do not prevent the end of a task.
    let ending = Ending::Error { message: "a\0\u{1f980}".to_owned(), detail: "{}".to_owned() };
    fixture.end(&lease, &ending, NOW).await;
    let task = fixture.database.task(fixture.customer, &lease.task).await.unwrap().unwrap();
    assert_eq!(task.status, Status::Failed);
}

pub(crate) async fn accounts_take_turns_however_many_tasks_each_has(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let accounts =
        [fixture.account("a").await.id, fixture.account("b").await.id, fixture.account("c").await.id];
    for (account, tasks) in accounts.iter().zip([2_000, 3, 0]) {
        for _ in 0..tasks {
            assert_eq!(fixture.create(*account, u32::MAX).await, Created::Queued);
        }
    }
    let mut order = Vec::new();
    for turn in 0..9 {
        if turn == 3 {
            // Fair scheduling: a new account waits for at most one task of each other account.
            fixture.create(accounts[2], u32::MAX).await;
        }
        let lease = fixture.claim_one(NOW).await.unwrap();
        order.push(fixture.owner(&accounts, &lease).await);
    }
    assert_eq!(order, [0, 1, 0, 1, 0, 2, 1, 0, 0]);
}

pub(crate) async fn a_claim_for_many_slots_gives_each_a_task_of_its_own(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    for _ in 0..3 {
        fixture.create(fixture.customer, u32::MAX).await;
    }
    let of_another_model = Slot { models: ["another".to_owned()].into(), ..slot("none") };
    let slots = ["one", "two", "three", "four"].map(slot);
    let slots: Vec<Slot> = iter::once(of_another_model).chain(slots).collect();
    let leases = fixture.claim(RULES, &slots, NOW).await;
    let is_leased: Vec<_> = leases.iter().map(Option::is_some).collect();
    assert_eq!(is_leased, [false, true, true, true, false]);
    let tasks: BTreeSet<_> = leases.into_iter().flatten().map(|lease| lease.task).collect();
    assert_eq!(tasks.len(), 3);
}

pub(crate) async fn an_account_has_so_many_unfinished_and_so_many_running_tasks(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (greedy, other) = (fixture.account("greedy").await.id, fixture.account("other").await.id);
    for _ in 0..3 {
        assert_eq!(fixture.create(greedy, 3).await, Created::Queued);
    }
    assert_eq!(fixture.create(greedy, 3).await, Created::TooManyUnfinished);
    assert_eq!(fixture.create(other, 3).await, Created::Queued);

    let rules = LeaseRules { max_running: 1, ..RULES };
    let slots = [slot("node"), slot("node"), slot("node")];
    let leases: Vec<_> = fixture.claim(rules, &slots, NOW).await.into_iter().flatten().collect();
    assert_eq!(leases.len(), 2, "one of each account");
    fixture.finish(&leases[0], NOW).await;
    assert_eq!(fixture.create(greedy, 3).await, Created::Queued, "one has ended");
    assert_eq!(fixture.claim(rules, &slots, NOW).await.into_iter().flatten().count(), 1);

    let slots = ["one", "one", "two", "two"].map(|node| Slot { max_running: 1, ..slot(node) });
    let leases: Vec<_> = fixture.claim(RULES, &slots, NOW).await.iter().map(Option::is_some).collect();
    assert_eq!(leases, [true, false, true, false]);
}

pub(crate) async fn a_released_lease_is_free_at_once_and_does_not_count(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, u32::MAX).await;
    for attempt in 1..=5 {
        let lease = fixture.claim_one(NOW).await.unwrap();
        assert_eq!(lease.attempt, attempt);
        fixture.database.release("node", &lease.task, attempt, NOW).await.unwrap();
        let ending = Ending::Output("{}".to_owned());
        let task = fixture.database.task(fixture.customer, &lease.task).await.unwrap().unwrap();
        assert_eq!(task.status, Status::Computing, "it never goes back");
        let late = fixture.database.finish("node", &lease.task, attempt - 1, &ending, NOW).await.unwrap();
        assert!(!late);
    }
    let lease = fixture.claim_one(NOW).await.unwrap();
    fixture.finish(&lease, NOW).await;
}

pub(crate) async fn a_lease_that_ends_in_order_is_released_once_however_often_that_is_reported(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, u32::MAX).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    for _ in 0..2 {
        fixture.database.release("node", &lease.task, lease.attempt, NOW).await.unwrap();
    }
    fixture.database.node_ended("node", NodeEnd::Left, NOW).await.unwrap();
    // The release does not add to the two attempts of the task.
    let mut now = NOW;
    for attempt in 2..=3 {
        assert_eq!(fixture.claim_one(now).await.unwrap().attempt, attempt);
        now = now.after(RULES.length * 2);
    }
    assert!(fixture.claim_one(now).await.is_none());
    let task = fixture.database.task(fixture.customer, &lease.task).await.unwrap().unwrap();
    assert_eq!(task.status, Status::Failed);
    let message = task.message.unwrap_or_default();
    assert!(message.contains("leases of it expired"), "{message}");
}

pub(crate) async fn a_lease_that_has_expired_counts_although_its_node_leaves_in_order_later(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, u32::MAX).await;
    let mut now = NOW;
    for attempt in 1..=2 {
        let lease = fixture.claim_one(now).await.unwrap();
        assert_eq!(lease.attempt, attempt);
        now = now.after(RULES.length * 2);
        fixture.database.release("node", &lease.task, attempt, now).await.unwrap();
        fixture.database.node_ended("node", NodeEnd::Left, now).await.unwrap();
    }
    assert!(fixture.claim_one(now).await.is_none());
}

pub(crate) async fn a_node_that_leaves_costs_no_attempt_and_one_that_dies_does(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let alone = NodeEnd::DiedAlone.uncounted() + RULES.attempts;
    for (end, attempts) in [(NodeEnd::Died, RULES.attempts), (NodeEnd::DiedAlone, alone), (NodeEnd::Left, 30)]
    {
        fixture.create(fixture.customer, u32::MAX).await;
        let mut leases = 0;
        while leases < 30 && fixture.claim_one(NOW).await.is_some() {
            fixture.database.node_ended("node", end, NOW).await.unwrap();
            leases += 1;
        }
        assert_eq!(leases, attempts, "{end:?}");
    }
}

pub(crate) async fn the_queue_tells_how_many_tasks_wait_and_run_and_since_when(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    assert_eq!(fixture.database.oldest_queued().await.unwrap(), None);
    let second = |seconds| NOW.after(Duration::from_secs(seconds));
    for seconds in 0..3 {
        fixture.create_task(fixture.customer, 0, second(seconds)).await;
    }
    fixture.claim_one(second(3)).await.unwrap();
    let depths = fixture.database.depths().await.unwrap();
    for (status, tasks) in [(Status::Queued, 2), (Status::Computing, 1)] {
        assert!(depths.contains(&(status, tasks)), "{depths:?}");
    }
    assert_eq!(fixture.database.oldest_queued().await.unwrap(), Some(second(1)));
    let load = |nodes| ModelLoad {
        model: MODEL.to_owned(),
        queued: 2,
        computing: 1,
        waits_since: Some(second(1)),
        nodes,
    };
    for (since, nodes) in [(3, 1), (4, 0)] {
        assert_eq!(fixture.database.model_loads(second(since)).await.unwrap(), [load(nodes)]);
    }
}

pub(crate) async fn a_task_that_cannot_be_failed_keeps_no_other_task_from_being_claimed_or_failed(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    let rules = LeaseRules { attempts: 1, ..RULES };
    let slots = [slot("node"), slot("node")];
    fixture.database.credit(fixture.customer, Credit::Paid(Money::from_smallest(5)), NOW).await.unwrap();
    let damaged = fixture.create_task(fixture.customer, 5, NOW).await;
    let abandoned = fixture.create_task(fixture.customer, 0, NOW).await;
    assert_eq!(fixture.claim(rules, &slots, NOW).await.iter().flatten().count(), 2);
    let damage = format!("UPDATE tasks SET held_balance = 9223372036854775807 WHERE id = '{damaged}'");
    fixture.engine.execute(&damage).await;
    let status =
        async |task: &str| fixture.database.task(fixture.customer, task).await.unwrap().unwrap().status;

    let later = NOW.after(RULES.length * 2);
    let all = Abandoned { expired_before: later, live_since: later, unclaimed_before: later, ..NONE };
    assert_eq!(fixture.database.fail_abandoned(all, later).await.unwrap(), 1);
    assert_eq!((status(&damaged).await, status(&abandoned).await), (Status::Computing, Status::Failed));

    let later = later.after(RULES.length * 2);
    let queued = fixture.create_task(fixture.customer, 0, later).await;
    let claimed: Vec<_> = fixture.claim(rules, &slots, later).await.into_iter().flatten().collect();
    assert_eq!(claimed.iter().map(|lease| &*lease.task).collect::<Vec<_>>(), [&*queued]);
    assert_eq!(status(&damaged).await, Status::Computing);

    fixture.engine.execute(&format!("UPDATE tasks SET held_balance = 5 WHERE id = '{damaged}'")).await;
    let later = later.after(RULES.length * 2);
    fixture.claim(rules, &slots, later).await;
    assert_eq!(status(&damaged).await, Status::Failed);
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().balance.smallest(), 5);
}

pub(crate) async fn a_node_that_is_not_registered_gets_no_task(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, u32::MAX).await;
    let claims = fixture.database.claim(&[slot("unknown"), slot("unknown")], RULES, NOW).await.unwrap();
    assert!(matches!(claims[..], [Claim::UnknownNode, Claim::UnknownNode]), "{claims:?}");
    assert!(fixture.claim_one(NOW).await.is_some());
}

pub(crate) async fn nodes_that_were_alive_before_a_downtime_have_time_to_come_back(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let key = NewKey::draw(&fixture.random).unwrap().kept;
    fixture.database.add_node_key("lab", &key, None, NOW).await.unwrap();
    let later = NOW.after(RULES.length * 2);
    let models = [MODEL.to_owned()];
    for (node, now) in [("dead", NOW), ("alive", later)] {
        fixture.database.register(node, Some("lab"), &models, now).await.unwrap();
        fixture.database.touch_slots(&[(node.to_owned(), models.clone().into())], now).await.unwrap();
        fixture.create(fixture.customer, u32::MAX).await;
        let rules = LeaseRules { length: RULES.length * 10, ..RULES };
        let claims = fixture.database.claim(&[slot(node)], rules, now).await.unwrap();
        assert!(matches!(claims[..], [Claim::Leased(_)]), "{node}");
    }
    let back = later.after(Duration::from_hours(1));
    let (seen_at, lease_until) = (back.before(RULES.length), back.after(RULES.length));
    fixture.database.register("process", None, &models, back.before(RULES.length)).await.unwrap();
    let resume =
        |absent_since| fixture.database.resume_nodes(RULES.length, absent_since, seen_at, lease_until);
    resume(back.before(RULES.length)).await.unwrap();
    assert_eq!(fixture.database.models_of_outside_nodes(seen_at).await.unwrap(), [""; 0]);
    fixture.database.node_ended("process", NodeEnd::Left, back).await.unwrap();
    resume(back.before(RULES.length)).await.unwrap();
    let served = fixture.database.models_of_outside_nodes(seen_at).await.unwrap();
    assert_eq!(served, models);
    let claim = async |now| {
        fixture.claim(RULES, &[slot("new"), slot("new")], now).await.into_iter().flatten().count()
    };
    assert_eq!(claim(back).await, 1, "that of the node that was dead");
    assert_eq!(claim(lease_until).await, 0);
    assert_eq!(claim(lease_until.after(Duration::from_secs(1))).await, 1);
}

pub(crate) async fn a_claim_finds_the_task_behind_many_that_were_leased_too_often(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let slots = vec![slot("node"); 20];
    for _ in &slots {
        fixture.create(fixture.customer, u32::MAX).await;
    }
    let mut now = NOW;
    for _ in 0..RULES.attempts {
        assert_eq!(fixture.claim(RULES, &slots, now).await.iter().flatten().count(), slots.len());
        now = now.after(RULES.length * 2);
    }
    fixture.create(fixture.customer, u32::MAX).await;
    let last = fixture.claim_one(now.before(RULES.length)).await.unwrap();
    let again = fixture.claim_one(now.after(RULES.length)).await.unwrap();
    assert_eq!((again.task, again.attempt), (last.task, 2));
}

pub(crate) async fn a_task_that_no_live_node_serves_fails_and_its_money_is_released(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.database.credit(fixture.customer, Credit::Paid(Money::from_smallest(10)), NOW).await.unwrap();
    let task = fixture.create_task(fixture.customer, 4, NOW).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    let later = NOW.after(Duration::from_secs(1_000));

    let fail = async |expired_before, live_since| {
        let which = Abandoned { expired_before, live_since, ..NONE };
        fixture.database.fail_abandoned(which, later).await.unwrap()
    };
    assert_eq!(fail(later, NOW).await, 0);
    assert_eq!(fail(NOW, later).await, 0, "the lease has not expired for long");
    assert_eq!(fail(later, later).await, 1);
    let task = fixture.database.task(fixture.customer, &task).await.unwrap().unwrap();
    assert_eq!(task.status, Status::Failed);
    assert!(task.message.unwrap().contains("no other node took the task over"));
    let state = fixture.database.lease_state("node", &lease.task, lease.attempt).await.unwrap();
    assert_eq!(state, LeaseState::Lost);
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().balance.smallest(), 10);
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}

pub(crate) async fn a_task_that_no_node_takes_over_for_long_fails_although_a_node_says_that_it_serves_the_model(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    fixture.database.credit(fixture.customer, Credit::Paid(Money::from_smallest(10)), NOW).await.unwrap();
    fixture.create_task(fixture.customer, 4, NOW).await;
    fixture.claim_one(NOW).await.unwrap();
    let later = NOW.after(RULES.length * 100);
    let fail_abandoned = async |unclaimed_before| {
        let which = Abandoned { expired_before: later, live_since: NOW, unclaimed_before, ..NONE };
        fixture.database.fail_abandoned(which, later).await.unwrap()
    };
    assert_eq!(fail_abandoned(NOW.after(RULES.length)).await, 0);
    assert_eq!(fail_abandoned(later).await, 1);
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().balance.smallest(), 10);
}

pub(crate) async fn a_lease_that_expired_in_an_outage_is_left_to_its_node(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.create_task(fixture.customer, 0, NOW).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    let later = NOW.after(RULES.length * 3);
    let left = LeaseRules { expired_before: NOW.after(RULES.length / 2), ..RULES };
    let slots = [slot("node")];
    assert!(matches!(fixture.claim(left, &slots, later).await[..], [None]));
    let again = fixture.claim(RULES, &slots, later).await;
    assert_eq!(again[0].as_ref().map(|lease| lease.task.as_str()), Some(lease.task.as_str()));
}

pub(crate) async fn a_lease_and_a_node_of_a_clock_that_was_ahead_end_as_others_do(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.database.credit(fixture.customer, Credit::Paid(Money::from_smallest(10)), NOW).await.unwrap();
    let task = fixture.create_task(fixture.customer, 4, NOW).await;
    fixture.claim_one(NOW.after(Duration::from_hours(24 * 365))).await.unwrap();
    let latest = NOW.after(RULES.length * 3);
    assert_eq!(fixture.database.fail_abandoned(Abandoned { latest, ..NONE }, NOW).await.unwrap(), 0);
    let is_served = async |since| fixture.database.serving(MODEL, since).await.unwrap().serving;
    assert!(is_served(NOW).await);
    assert!(!is_served(NOW.after(RULES.length)).await);
    let which = Abandoned { expired_before: latest, live_since: latest, ..NONE };
    assert_eq!(fixture.database.fail_abandoned(which, latest).await.unwrap(), 0, "it ends only now");
    let later = latest.after(RULES.length);
    let which = Abandoned { expired_before: later, live_since: later, ..NONE };
    assert_eq!(fixture.database.fail_abandoned(which, later).await.unwrap(), 1);
    let task = fixture.database.task(fixture.customer, &task).await.unwrap().unwrap();
    assert_eq!(task.status, Status::Failed);
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().balance.smallest(), 10);
}

pub(crate) async fn a_stuck_node_does_not_keep_a_task_that_it_leased_while_the_clock_was_ahead(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    fixture.create_task(fixture.customer, 0, NOW).await;
    let lease = fixture.claim_one(NOW.after(Duration::from_hours(24 * 365))).await.unwrap();
    let latest = NOW.after(RULES.length);
    let prolong = async |oldest| {
        let until = NOW.after(RULES.length);
        fixture.database.heartbeat("node", &lease.task, 1, until, Some(oldest)).await.unwrap()
    };
    assert!(prolong(NOW).await);
    fixture.database.fail_abandoned(Abandoned { latest, ..NONE }, NOW).await.unwrap();
    assert!(prolong(latest).await);
    assert!(!prolong(latest.after(RULES.length)).await);
}

pub(crate) async fn a_task_that_waited_for_too_long_fails_unbilled(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.database.credit(fixture.customer, Credit::Paid(Money::from_smallest(100)), NOW).await.unwrap();
    fixture.create_task(fixture.customer, 5, NOW).await;
    let running = fixture.claim_one(NOW).await.unwrap();
    let old = fixture.create_task(fixture.customer, 5, NOW).await;
    let older = fixture.create_task(fixture.customer, 5, NOW).await;
    let young = NOW.after(Duration::from_mins(1));
    let task = fixture.task(Money::from_smallest(5));
    let create = fixture.database.create_task(&task, InsufficientBalance::Refuse, 9, young);
    assert_eq!(create.await.unwrap(), Created::Queued);
    let now = young.after(Duration::from_mins(1));
    assert_eq!(fixture.database.fail_queued(NOW, now).await.unwrap(), 0, "none is older");
    assert_eq!(fixture.database.fail_queued(young, now).await.unwrap(), 2);
    fixture.finish(&running, now).await;
    for id in [old, older] {
        let failed = fixture.database.task(fixture.customer, &id).await.unwrap().unwrap();
        assert_eq!((failed.status, failed.updated_at, failed.cost), (Status::Failed, now, Money::ZERO));
        assert!(failed.message.is_some_and(|message| message.contains("no node started")));
    }
    let purses = fixture.database.purses(fixture.customer).await.unwrap();
    assert_eq!((purses.balance.smallest(), purses.held.smallest()), (90, 5));
    assert_eq!(fixture.claim_one(now).await.map(|lease| lease.task), Some(task.id));
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}

pub(crate) async fn a_queued_task_that_cannot_be_failed_keeps_no_other_one(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let mut queued = Vec::new();
    for account in [fixture.operator, fixture.customer] {
        fixture.database.credit(account, Credit::Paid(Money::from_smallest(100)), NOW).await.unwrap();
        queued.push(fixture.create_task(account, 5, NOW).await);
    }
    let damage = format!("UPDATE tasks SET held_balance = 9223372036854775807 WHERE id = '{}'", queued[0]);
    fixture.engine.execute(&damage).await;
    let now = NOW.after(Duration::from_mins(1));
    assert_eq!(fixture.database.fail_queued(now, now).await.unwrap(), 1);
    let status = async |account, id| fixture.database.task(account, id).await.unwrap().unwrap().status;
    assert_eq!(status(fixture.operator, &queued[0]).await, Status::Queued);
    assert_eq!(status(fixture.customer, &queued[1]).await, Status::Failed);
    fixture.engine.execute(&damage.replace("9223372036854775807", "5")).await;
    assert_eq!(fixture.database.fail_queued(now, now).await.unwrap(), 1);
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}

pub(crate) async fn tasks_of_a_dead_node_do_not_use_up_what_an_account_may_run(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.database.publish(&[model("other", fixture.operator)], Existing::Keep).await.unwrap();
    let other = Slot { models: ["other".to_owned()].into(), ..slot("dead") };
    let of_other = NewTask { model: "other".to_owned(), ..fixture.task(Money::ZERO) };
    fixture.database.create_task(&of_other, InsufficientBalance::Refuse, 9, NOW).await.unwrap();
    fixture.create(fixture.customer, 9).await;
    let rules = LeaseRules { max_running: 1, ..RULES };
    assert!(matches!(fixture.claim(rules, &[other], NOW).await[..], [Some(_)]));
    let claims = async |now| fixture.claim(rules, &[slot("node")], now).await.iter().flatten().count();
    assert_eq!(claims(NOW.after(RULES.length)).await, 0, "the limit of the account");
    assert_eq!(claims(NOW.after(RULES.length * 2)).await, 1, "nobody runs the first one any more");
}

async fn store_output<E: Engine>(fixture: &Fixture<E>, lease: &Lease, name: &str) -> String {
    let object = output(lease, name);
    let limits = OutputLimits { count: 9, bytes: 9 };
    let stored = fixture.database.store_output(name, &object, limits).await.unwrap();
    assert_eq!(stored, OutputStored::Done { replaced: None });
    object.key
}

fn output(lease: &Lease, name: &str) -> Object {
    Object {
        bucket: "outputs".to_owned(),
        key: format!("{}/{}/{name}", lease.task, lease.attempt),
        blob: name.to_owned(),
        mime: "image/png".to_owned(),
        size: 1,
        etag: String::new(),
        created_at: NOW,
    }
}

pub(crate) async fn a_lease_has_no_more_outputs_than_its_limit_though_they_come_at_once(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, 10).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    let store = async |index: u32| {
        let name = index.to_string();
        let limits = OutputLimits { count: 2, bytes: 9 };
        fixture.database.store_output(&name, &output(&lease, &name), limits).await.unwrap()
    };
    let stored = join_all((0..8).map(store)).await;
    let kept = stored.iter().filter(|stored| matches!(stored, OutputStored::Done { .. })).count();
    assert_eq!(kept, 2, "{stored:?}");
}

pub(crate) async fn outputs_that_a_result_does_not_name_are_removed(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, 10).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    let of_lease = format!("{}/{}", lease.task, lease.attempt);
    let unnamed = store_output(&fixture, &lease, "a.jpg").await;
    let named =
        [store_output(&fixture, &lease, "a.png").await, store_output(&fixture, &lease, "b.png").await];
    let removed = fixture.database.remove_unnamed_outputs("outputs", &of_lease, &named).await.unwrap();
    assert_eq!(removed, ["a.jpg"]);
    assert!(fixture.database.object("outputs", &unnamed).await.unwrap().is_none());
    assert!(fixture.database.object("outputs", &named[0]).await.unwrap().is_some());
}

pub(crate) async fn no_write_that_removes_outputs_is_long(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.create(fixture.customer, 10).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    let limits = OutputLimits { count: u64::MAX, bytes: u64::MAX };
    for number in 0..1_001 {
        let name = number.to_string();
        fixture.database.store_output(&name, &output(&lease, &name), limits).await.unwrap();
    }
    let ending = Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() };
    fixture.end(&lease, &ending, NOW).await;
    let removed = async || fixture.database.remove_outputs(NOW).await.unwrap().len();
    assert_eq!((removed().await, removed().await, removed().await), (1_000, 1, 0));
}

pub(crate) async fn outputs_of_a_success_and_logs_stay_until_they_are_old(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let later = NOW.after(Duration::from_secs(1));
    for name in ["success.png", "failure.png"] {
        fixture.create(fixture.customer, 10).await;
        let lease = fixture.claim_one(NOW).await.unwrap();
        store_output(&fixture, &lease, name).await;
        let log = Object { bucket: LOGS.to_owned(), ..output(&lease, &format!("{name}.log")) };
        let limits = OutputLimits { count: 9, bytes: 9 };
        fixture.database.store_output(&log.blob, &log, limits).await.unwrap();
        let ending = match name {
            "success.png" => Ending::Output("{}".to_owned()),
            _ => Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() },
        };
        fixture.end(&lease, &ending, NOW).await;
    }
    assert_eq!(fixture.database.delete_ended_tasks(later, later).await.unwrap(), 2);
    assert_eq!(fixture.database.remove_outputs(NOW).await.unwrap(), ["failure.png"]);
    let mut expired = fixture.database.remove_outputs(later).await.unwrap();
    expired.sort_unstable();
    assert_eq!(expired, ["failure.png.log", "success.png", "success.png.log"]);
}
