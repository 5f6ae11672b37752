//! Claims of tasks by lease. Concurrent claims skip each other's locked rows, so that none waits (`SKIP LOCKED`). Tasks
//! after a lease expiry go first; queued tasks follow by fair scheduling, in which accounts take turns.

use std::collections::{BTreeMap, BTreeSet};

use super::super::PostgresDatabase;
use super::super::failure::{read, statement};
use super::super::statements::{Params, all};
use super::end::{Expired, Judged};
use crate::Result;
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{column, lease, pair};
use crate::queue::{Claim, Lease, LeaseRules, Slot, not_survived};

const EXPIRED_PER_SLOT: i64 = 8;

const EXPIRED: &str = "SELECT id, node, attempt, attempt - releases FROM tasks \
     WHERE status = 'computing' AND lease_until < $2 AND model = ANY ($1) \
     ORDER BY lease_until, sequence LIMIT $3";

const LEASED: &str = "SELECT leased.id, leased.model, input, input_format, output_format, attempt, releases, \
       traceparent, account, leased.created_at \
     FROM leased JOIN versions ON versions.id = leased.version ORDER BY number";

const LEASE_EXPIRED: &str = "WITH found AS ( \
       SELECT sequence FROM tasks WHERE status = 'computing' AND lease_until < $7 AND model = ANY ($1) \
         AND attempt - releases < $3 \
       ORDER BY lease_until, sequence LIMIT $4 FOR UPDATE SKIP LOCKED), \
     numbered AS (SELECT sequence, row_number() OVER (ORDER BY sequence) AS number FROM found), \
     leased AS ( \
       UPDATE tasks SET node = ($5::text[])[numbered.number], attempt = attempt + 1, lease_until = $6, \
         leased_at = $2 \
       FROM numbered WHERE tasks.sequence = numbered.sequence \
       RETURNING tasks.id, tasks.model, tasks.version, input, attempt, releases, traceparent, tasks.account, \
         tasks.created_at, number) ";

/// Fair scheduling: selects the active accounts with the lowest turns that have queued tasks of the models, and the
/// number of further tasks of each, without expired leases. A few index lookups per account, however many tasks wait.
const NEXT_TURNS: &str = "SELECT account, min(may_run) FROM unnest($1::text[]) AS wanted (model) \
     CROSS JOIN LATERAL ( \
       SELECT account, turn, least( \
           $2 - (SELECT count(*) FROM tasks \
                 WHERE status = 'computing' AND account = turns.account AND lease_until >= $7), \
           $4 - (SELECT count(*) FROM tasks \
                 WHERE status = 'computing' AND account = turns.account AND node = $3 \
                   AND lease_until >= $7)) AS may_run \
       FROM turns WHERE turns.model = wanted.model \
         AND EXISTS (SELECT 1 FROM tasks WHERE status = 'in_queue' \
                     AND tasks.model = turns.model AND tasks.account = turns.account) \
         AND (SELECT count(*) FROM tasks \
              WHERE status = 'computing' AND account = turns.account AND lease_until >= $7) < $2 \
         AND (SELECT count(*) FROM tasks \
              WHERE status = 'computing' AND account = turns.account AND node = $3 \
                AND lease_until >= $7) < $4 \
         AND turns.account <> ALL ($6) \
         AND EXISTS (SELECT 1 FROM accounts WHERE id = turns.account AND state = 'active') \
       ORDER BY turn LIMIT $5) AS next \
     WHERE NOT EXISTS (SELECT 1 FROM models WHERE id = wanted.model AND state <> 'active') \
     GROUP BY account ORDER BY min(turn) LIMIT $5";

/// Leases the oldest tasks of accounts and moves the accounts to the end of the turns, unless their turns are locked.
const LEASE_QUEUED: &str = "WITH found AS ( \
       SELECT of_account.sequence, wanted.account, wanted.number \
       FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS wanted (account, tasks, number) \
       CROSS JOIN LATERAL ( \
         SELECT sequence FROM tasks WHERE status = 'in_queue' AND account = wanted.account \
           AND model = ANY ($3) \
           AND NOT EXISTS (SELECT 1 FROM models WHERE id = tasks.model AND state <> 'active') \
         ORDER BY sequence LIMIT wanted.tasks FOR UPDATE SKIP LOCKED) AS of_account), \
     numbered AS (SELECT sequence, row_number() OVER (ORDER BY number, sequence) AS number FROM found), \
     leased AS ( \
       UPDATE tasks SET updated_at = $4, status = 'computing', node = ($5::text[])[numbered.number], \
         attempt = attempt + 1, lease_until = $6, leased_at = $4 \
       FROM numbered WHERE tasks.sequence = numbered.sequence \
       RETURNING tasks.id, tasks.model, tasks.version, input, attempt, releases, traceparent, tasks.account, \
         tasks.created_at, number), \
     passing AS ( \
       SELECT account, model FROM turns WHERE account IN (SELECT account FROM found) \
       ORDER BY account, model FOR UPDATE SKIP LOCKED), \
     passed AS ( \
       UPDATE turns SET turn = nextval('turn_numbers') FROM passing \
       WHERE turns.account = passing.account AND turns.model = passing.model) ";

fn groups(slots: &[Slot], known: &BTreeSet<String>) -> Vec<Vec<usize>> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for (place, slot) in slots.iter().enumerate().filter(|(_, slot)| known.contains(&slot.node)) {
        groups.entry(slot.claimable()).or_default().push(place);
    }
    groups.into_values().collect()
}

fn nodes<'a>(slots: &[&'a Slot]) -> Vec<&'a str> {
    slots.iter().map(|slot| &*slot.node).collect()
}

impl PostgresDatabase {
    pub(super) async fn claim_slots(
        &self,
        slots: &[Slot],
        rules: LeaseRules,
        now: Moment,
    ) -> Result<Vec<Claim>> {
        let all_nodes = nodes(&slots.iter().collect::<Vec<_>>());
        let registered = "SELECT id FROM nodes WHERE id = ANY ($1)";
        let known: Vec<String> = read!(self, |db| all(db, registered, &[&all_nodes], column))?;
        let known: BTreeSet<String> = known.into_iter().collect();
        let unleased = |slot: &Slot| match known.contains(&slot.node) {
            true => Claim::NoTask,
            false => Claim::UnknownNode,
        };
        let mut claims: Vec<Claim> = slots.iter().map(unleased).collect();
        let mut is_any_leased = false;
        for places in groups(slots, &known) {
            let group: Vec<&Slot> = places.iter().map(|place| &slots[*place]).collect();
            let mut leases = Vec::new();
            let claimed = self.claim_group(&group, rules, now, &mut leases).await;
            is_any_leased |= !leases.is_empty();
            for (place, lease) in places.into_iter().zip(leases) {
                claims[place] = Claim::Leased(lease);
            }
            match claimed {
                // Leased tasks must reach their slots, even if a later group fails.
                Err(cause) if is_any_leased => {
                    tracing::error!(%cause, "fewer tasks were claimed than there are slots");
                    break;
                }
                claimed => claimed?,
            }
        }
        Ok(claims)
    }

    async fn claim_group(
        &self,
        slots: &[&Slot],
        rules: LeaseRules,
        now: Moment,
        leases: &mut Vec<Lease>,
    ) -> Result<()> {
        leases.extend(self.claim_expired(slots, rules, now).await?);
        // Accounts to skip, including accounts whose tasks other processes are claiming.
        let mut taken = slots[0].passed_over.clone();
        while leases.len() < slots.len() {
            let Some(queued) = self.claim_queued(&slots[leases.len()..], rules, now, &mut taken).await?
            else {
                break;
            };
            leases.extend(queued);
        }
        Ok(())
    }

    async fn claim_expired(&self, slots: &[&Slot], rules: LeaseRules, now: Moment) -> Result<Vec<Lease>> {
        let wanted = i64::try_from(slots.len()).unwrap_or(i64::MAX);
        let models = &*slots[0].models;
        let most = wanted.saturating_mul(EXPIRED_PER_SLOT);
        let expired_before = rules.expired_before(now);
        let until = now.after(rules.length);
        loop {
            let expired: Vec<(Expired, i64)> =
                read!(self, |db| all(db, EXPIRED, &[&models, &expired_before, &most], |row| {
                    Ok((Expired::read(row)?, row.get(3)?))
                }))?;
            let mut claimable = 0;
            let mut is_any_judged = false;
            for (task, attempts) in &expired {
                if *attempts < rules.attempts {
                    claimable += 1;
                    if claimable == wanted {
                        break;
                    }
                } else {
                    let message = not_survived(*attempts);
                    let judged = self.fail_or_postpone(task, message, expired_before, until, now).await?;
                    is_any_judged |= judged != Judged::Locked;
                }
            }
            if claimable > 0 {
                let sql = format!("{LEASE_EXPIRED}{LEASED}");
                return statement!(self, |db| all(
                    db,
                    &sql,
                    &[&models, &now, &rules.attempts, &wanted, &nodes(slots), &until, &expired_before],
                    lease,
                ));
            }
            if !is_any_judged || (expired.len() as u64) < most.unsigned_abs() {
                return Ok(Vec::new());
            }
        }
    }

    /// Leases queued tasks of the accounts whose turn it is, in equal shares. Skips the accounts in `taken`, and adds
    /// accounts whose tasks other processes have locked. Returns None if no account is left.
    async fn claim_queued(
        &self,
        slots: &[&Slot],
        rules: LeaseRules,
        now: Moment,
        taken: &mut Vec<AccountId>,
    ) -> Result<Option<Vec<Lease>>> {
        let slot = slots[0];
        let models = &*slot.models;
        let most = i64::try_from(slots.len()).unwrap_or(i64::MAX);
        let (of_all, of_node) = (i64::from(rules.max_running), i64::from(slot.max_running));
        let params: Params<'_> = &[&models, &of_all, &slot.node, &of_node, &most, &*taken, &now];
        let turns: Vec<(AccountId, i64)> = read!(self, |db| all(db, NEXT_TURNS, params, pair))?;
        if turns.is_empty() {
            return Ok(None);
        }
        let share = most / i64::try_from(turns.len()).unwrap_or(i64::MAX);
        let (accounts, tasks): (Vec<AccountId>, Vec<i64>) =
            turns.into_iter().map(|(account, may_run)| (account, share.max(1).min(may_run))).unzip();
        let until = now.after(rules.length);
        let sql = format!("{LEASE_QUEUED}{LEASED}");
        let params: Params<'_> = &[&accounts, &tasks, &models, &now, &nodes(slots), &until];
        let leases: Vec<Lease> = statement!(self, |db| all(db, &sql, params, lease))?;
        if leases.is_empty() {
            taken.extend(accounts);
        }
        Ok(Some(leases))
    }
}
