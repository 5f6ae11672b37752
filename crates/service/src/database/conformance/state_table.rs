//! Conformance of the state table of tasks: random sequences of all events are compared with a small model of the
//! table. No task leaves the table, and the books stay consistent.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::queue::slot;
use super::{Engine, Fixture, MODEL};
use crate::clock::Moment;
use crate::ledger::{Credit, Money, Split};
use crate::queue::{
    Cancel, CreateKey, Created, Ending, InsufficientBalance, LeaseRules, NewTask, NodeEnd, Status,
};

const LEASE: Duration = Duration::from_millis(100);
const ATTEMPTS: i64 = 3;
const RULES: LeaseRules = LeaseRules { length: LEASE, attempts: ATTEMPTS, ..super::RULES };

#[derive(Debug, Clone)]
enum Step {
    Credit {
        free: bool,
        amount: u8,
    },
    Create {
        price: u8,
        fail: bool,
    },
    CreateAgain {
        task: prop::sample::Index,
    },
    Cancel {
        task: prop::sample::Index,
    },
    Claim {
        node: u8,
    },
    /// A node sends the result of its latest lease, perhaps after the lease expiry.
    Finish {
        node: u8,
        succeeds: bool,
    },
    Heartbeat {
        node: u8,
    },
    /// A node dies without a report. Its task waits for the lease expiry.
    Die {
        node: u8,
    },
    /// A node deregisters, or its process is known to have ended.
    Gone {
        node: u8,
        in_order: bool,
    },
    Wait {
        milliseconds: u8,
    },
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0..3_u8;
    let step = prop_oneof![
        1 => (any::<bool>(), 1..50_u8).prop_map(|(free, amount)| Step::Credit { free, amount }),
        5 => (0..20_u8, any::<bool>()).prop_map(|(price, fail)| Step::Create { price, fail }),
        1 => any::<prop::sample::Index>().prop_map(|task| Step::CreateAgain { task }),
        2 => any::<prop::sample::Index>().prop_map(|task| Step::Cancel { task }),
        5 => node.clone().prop_map(|node| Step::Claim { node }),
        4 => (node.clone(), any::<bool>()).prop_map(|(node, succeeds)| Step::Finish { node, succeeds }),
        1 => node.clone().prop_map(|node| Step::Heartbeat { node }),
        1 => node.clone().prop_map(|node| Step::Die { node }),
        1 => (node, any::<bool>()).prop_map(|(node, in_order)| Step::Gone { node, in_order }),
        3 => (1..120_u8).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Default)]
struct Expected {
    now: i64,
    free: i64,
    balance: i64,
    earnings: i64,
    tasks: Vec<ExpectedTask>,
    leased: BTreeMap<u8, (usize, i64)>,
}

struct ExpectedTask {
    id: String,
    status: Status,
    held: Split,
    node: u8,
    attempt: i64,
    releases: i64,
    lease_until: i64,
}

impl Expected {
    fn claim(&mut self, node: u8) -> Option<usize> {
        loop {
            let expired = (0..self.tasks.len())
                .filter(|&index| self.tasks[index].status == Status::Computing)
                .filter(|&index| self.tasks[index].lease_until < self.now)
                .min_by_key(|&index| self.tasks[index].lease_until);
            let Some(index) = expired else { break };
            if self.tasks[index].attempt - self.tasks[index].releases < ATTEMPTS {
                return Some(self.lease(index, node));
            }
            self.release(index, Status::Failed);
        }
        let queued = self.tasks.iter().position(|task| task.status == Status::Queued)?;
        Some(self.lease(queued, node))
    }

    fn lease(&mut self, index: usize, node: u8) -> usize {
        let until = Moment(self.now).after(LEASE).0;
        let task = &mut self.tasks[index];
        (task.status, task.node, task.lease_until) = (Status::Computing, node, until);
        task.attempt += 1;
        self.leased.insert(node, (index, task.attempt));
        index
    }

    fn release(&mut self, index: usize, status: Status) {
        self.tasks[index].status = status;
        self.free += self.tasks[index].held.free.smallest();
        self.balance += self.tasks[index].held.balance.smallest();
    }

    fn own(&self, node: u8) -> Option<usize> {
        let (index, attempt) = *self.leased.get(&node)?;
        let task = &self.tasks[index];
        let own = task.status == Status::Computing && task.node == node && task.attempt == attempt;
        own.then_some(index)
    }

    fn held(&self) -> i64 {
        let unended = |task: &&ExpectedTask| matches!(task.status, Status::Queued | Status::Computing);
        let sum = |split: Split| split.free.smallest() + split.balance.smallest();
        self.tasks.iter().filter(unended).map(|task| sum(task.held)).sum()
    }
}

fn key(task: usize) -> CreateKey {
    CreateKey::new(format!("key-{task}"), MODEL, &[])
}

fn name(node: u8) -> String {
    format!("node-{node}")
}

async fn take<E: Engine>(fixture: &mut Fixture<E>, expected: &mut Expected, step: &Step) {
    let now = Moment(expected.now);
    match *step {
        Step::Credit { free, amount } => {
            let amount = Money::from_smallest(amount.into());
            let credit = if free { Credit::Free(amount) } else { Credit::Paid(amount) };
            fixture.database.credit(fixture.customer, credit, now).await.unwrap();
            *(if free { &mut expected.free } else { &mut expected.balance }) += amount.smallest();
        }
        Step::Create { price, fail } => {
            let key = Some(key(expected.tasks.len()));
            let task = NewTask { key, ..fixture.task(Money::from_smallest(price.into())) };
            let policy = if fail { InsufficientBalance::FailTask } else { InsufficientBalance::Refuse };
            let created = fixture.database.create_task(&task, policy, u32::MAX, now).await.unwrap();
            let price = i64::from(price);
            let covered = price <= expected.free + expected.balance;
            let status = match created {
                Created::Queued => Status::Queued,
                Created::Failed => Status::Failed,
                Created::Refused { spendable } => {
                    assert_eq!(spendable.smallest(), expected.free + expected.balance);
                    assert!(!covered && !fail, "a task was refused that had to be created");
                    return;
                }
                Created::TooManyUnfinished | Created::KeyLimit { .. } => panic!("there is no limit here"),
                Created::KeyUsed(used) => panic!("the key is new: {used:?}"),
            };
            assert_eq!(status == Status::Queued, covered, "a task was queued without money, or not with it");
            let from_free = if covered { price.min(expected.free) } else { 0 };
            let from_balance = if covered { price - from_free } else { 0 };
            expected.free -= from_free;
            expected.balance -= from_balance;
            let (free, balance) = (Money::from_smallest(from_free), Money::from_smallest(from_balance));
            expected.tasks.push(ExpectedTask {
                id: task.id,
                status,
                held: Split { free, balance },
                node: 0,
                attempt: 0,
                releases: 0,
                lease_until: 0,
            });
        }
        Step::CreateAgain { ref task } if !expected.tasks.is_empty() => {
            let index = task.index(expected.tasks.len());
            let task = NewTask { key: Some(key(index)), ..fixture.task(Money::from_smallest(1)) };
            let policy = InsufficientBalance::FailTask;
            let created = fixture.database.create_task(&task, policy, 0, now).await.unwrap();
            let used = matches!(&created, Created::KeyUsed(used) if used.task == expected.tasks[index].id);
            assert!(used, "{created:?}");
        }
        Step::Cancel { ref task } if !expected.tasks.is_empty() => {
            let index = task.index(expected.tasks.len());
            let (id, status) = (expected.tasks[index].id.clone(), expected.tasks[index].status);
            let canceled = fixture.database.cancel(fixture.customer, &id, now).await.unwrap();
            if status == Status::Queued {
                assert_eq!(canceled, Cancel::Canceled);
                expected.release(index, Status::Canceled);
            } else {
                assert_eq!(canceled, Cancel::Refused(status));
            }
        }
        Step::CreateAgain { .. } => {}
        Step::Cancel { .. } => {
            let canceled = fixture.database.cancel(fixture.customer, "none", now).await.unwrap();
            assert_eq!(canceled, Cancel::Unknown);
        }
        Step::Claim { node } => {
            let lease = fixture.claim(RULES, &[slot(&name(node))], now).await.pop().unwrap();
            let wanted = expected.claim(node).map(|index| expected.tasks[index].id.clone());
            assert_eq!(lease.map(|lease| lease.task), wanted, "a node got another task than its turn");
        }
        Step::Finish { node, succeeds } => {
            let Some(&(index, attempt)) = expected.leased.get(&node) else { return };
            let id = expected.tasks[index].id.clone();
            let ending = match succeeds {
                true => Ending::Output("{}".to_owned()),
                false => Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() },
            };
            let finished = fixture.database.finish(&name(node), &id, attempt, &ending, now).await.unwrap();
            assert_eq!(finished, expected.own(node).is_some(), "a result counts once, from the latest lease");
            match expected.own(node) {
                Some(index) if succeeds => {
                    let held = expected.tasks[index].held;
                    expected.earnings += held.free.smallest() + held.balance.smallest();
                    expected.tasks[index].status = Status::Success;
                }
                Some(index) => expected.release(index, Status::Failed),
                None => {}
            }
        }
        Step::Heartbeat { node } => {
            let Some(&(index, attempt)) = expected.leased.get(&node) else { return };
            let (id, until) = (expected.tasks[index].id.clone(), now.after(LEASE));
            let kept = fixture.database.heartbeat(&name(node), &id, attempt, until, None).await.unwrap();
            assert_eq!(kept, expected.own(node).is_some());
            if let Some(index) = expected.own(node) {
                expected.tasks[index].lease_until = until.0;
            }
        }
        Step::Die { node } => {
            expected.leased.remove(&node);
        }
        Step::Gone { node, in_order } => {
            let end = if in_order { NodeEnd::Left } else { NodeEnd::Died };
            fixture.database.node_ended(&name(node), end, now).await.unwrap();
            for task in &mut expected.tasks {
                let is_leased = task.status == Status::Computing && task.lease_until >= now.0;
                if is_leased && task.node == node {
                    task.lease_until = now.0 - 1;
                    task.releases += i64::from(in_order);
                }
            }
        }
        Step::Wait { milliseconds } => expected.now += i64::from(milliseconds),
        Step::Crash => fixture.crash().await,
    }
}

async fn compare<E: Engine>(fixture: &Fixture<E>, expected: &Expected) {
    let purses = fixture.database.purses(fixture.customer).await.unwrap();
    assert_eq!(purses.free.smallest(), expected.free);
    assert_eq!(purses.balance.smallest(), expected.balance);
    assert_eq!(purses.held.smallest(), expected.held());
    let operator = fixture.database.purses(fixture.operator).await.unwrap();
    assert_eq!(operator.earnings.smallest(), expected.earnings);
    let (history, total) = fixture.database.history(fixture.customer, 100, 0).await.unwrap();
    let seen: Vec<_> = history.iter().map(|task| (task.task_id.as_str(), task.status)).collect();
    let wanted: Vec<_> = expected.tasks.iter().map(|task| (task.id.as_str(), task.status)).collect();
    assert_eq!(seen, wanted);
    assert_eq!(total, wanted.len() as u64);
}

pub(crate) fn holds<E: Engine>(new: fn() -> E) {
    // One case after the other would leave a core idle for seconds.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| hold_for_cases(48, new));
        }
    });
}

fn hold_for_cases<E: Engine>(cases: u32, new: fn() -> E) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let ran = TestRunner::new(config).run(&steps(), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut fixture = Fixture::new(new()).await;
            let mut expected = Expected::default();
            for step in &steps {
                take(&mut fixture, &mut expected, step).await;
                compare(&fixture, &expected).await;
            }
            fixture.assert_books_are_right().await;
        });
        Ok(())
    });
    assert!(ran.is_ok(), "{ran:?}");
}
