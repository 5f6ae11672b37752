//! Conformance of the operator's interventions: ended tasks, paused models, and the audit log.

use super::queue::slot;
use super::{Engine, Fixture, MODEL, RULES, model};
use crate::accounts::AccountState;
use crate::catalog::{Existing, ModelChange, ModelState};
use crate::clock::Moment;
use crate::ledger::{Credit, Money};
use crate::operator::{Action, TaskChange};
use crate::queue::{Ending, NewTask, Slot, Status};

const NOW: Moment = Moment(1_000);

impl<E: Engine> Fixture<E> {
    async fn set_model_state(&self, model: &str, state: ModelState) {
        let change = ModelChange { state: Some(state), ..ModelChange::default() };
        assert!(self.database.change_model(model, change, NOW).await.unwrap());
    }
}

pub(crate) async fn an_operator_cancels_queued_tasks_and_fails_running_ones(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    database.credit(fixture.customer, Credit::Paid(Money::from_smallest(10)), NOW).await.unwrap();
    let first = fixture.create_task(fixture.customer, 3, NOW).await;
    let second = fixture.create_task(fixture.customer, 4, NOW).await;
    let lease = fixture.claim_one(NOW).await.unwrap();
    assert_eq!(lease.task, first);
    let fail = async |id: &str| database.fail_task(id, "stopped", NOW).await.unwrap();
    let cancel = async |id: &str| database.cancel_task(id, NOW).await.unwrap();
    assert_eq!(fail(&second).await, TaskChange::Refused(Status::Queued));
    assert_eq!(cancel(&first).await, TaskChange::Refused(Status::Computing));
    assert_eq!((fail(&first).await, cancel(&second).await), (TaskChange::Done, TaskChange::Done));
    assert_eq!(fail(&first).await, TaskChange::Refused(Status::Failed));
    assert_eq!(cancel(&second).await, TaskChange::Refused(Status::Canceled));
    assert_eq!((fail("none").await, cancel("none").await), (TaskChange::Unknown, TaskChange::Unknown));
    let late = Ending::Output("{}".to_owned());
    assert!(!database.finish("node", &first, lease.attempt, &late, NOW).await.unwrap());
    let task = database.task(fixture.customer, &first).await.unwrap().unwrap();
    assert_eq!((task.status, task.message.as_deref()), (Status::Failed, Some("stopped")));
    assert_eq!(database.purses(fixture.customer).await.unwrap().balance.smallest(), 10);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_requeued_task_goes_to_another_node_and_counts_no_attempt(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let task = fixture.create_task(fixture.customer, 0, NOW).await;
    assert_eq!(database.requeue_task(&task, NOW).await.unwrap(), TaskChange::Refused(Status::Queued));
    assert_eq!(database.requeue_task("none", NOW).await.unwrap(), TaskChange::Unknown);
    let mut lease = fixture.claim_one(NOW).await.unwrap();
    for _ in 0..RULES.attempts + 2 {
        assert_eq!(database.requeue_task(&task, NOW).await.unwrap(), TaskChange::Done);
        let late = Ending::Output("{}".to_owned());
        assert!(!database.finish("node", &task, lease.attempt, &late, NOW).await.unwrap());
        lease = fixture.claim_one(NOW).await.unwrap();
        assert_eq!(lease.task, task);
    }
    fixture.end(&lease, &Ending::Output("{}".to_owned()), NOW).await;
    assert_eq!(database.requeue_task(&task, NOW).await.unwrap(), TaskChange::Refused(Status::Success));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_requeue_is_no_lease_however_often_it_is_repeated(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let task = fixture.create_task(fixture.customer, 0, NOW).await;
    let shown = async || {
        let shown = database.any_task(&task).await.unwrap().unwrap().overview;
        (shown.attempt, shown.node)
    };
    for leases in 1..=3 {
        let lease = fixture.claim_one(NOW).await.unwrap();
        assert_eq!((lease.attempt, lease.attempt - lease.releases), (leases, 1));
        assert_eq!(shown().await, (leases, Some("node".to_owned())));
        for _ in 0..3 {
            assert_eq!(database.requeue_task(&task, NOW).await.unwrap(), TaskChange::Done);
        }
        assert_eq!(shown().await, (leases, None));
        let (now, later) = (NOW, NOW.after(RULES.length));
        assert!(!database.heartbeat("node", &task, lease.attempt, later, None).await.unwrap());
        let late = Ending::Output("{}".to_owned());
        assert!(!database.finish("node", &task, lease.attempt, &late, now).await.unwrap());
    }
    fixture.assert_books_are_right().await;
}

pub(crate) async fn tasks_of_a_paused_model_wait_and_those_of_others_run(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    database.publish(&[model("other", fixture.operator)], Existing::Keep).await.unwrap();
    let both = [MODEL.to_owned(), "other".to_owned()];
    let slot = Slot { models: both.into(), ..slot("node") };
    let claim = async || match fixture.claim(RULES, std::slice::from_ref(&slot), NOW).await.pop() {
        Some(Some(lease)) => Some(lease.task),
        _ => None,
    };
    let waiting = fixture.create_task(fixture.customer, 0, NOW).await;
    let other = NewTask { model: "other".to_owned(), ..fixture.task(Money::ZERO) };
    let refuse = crate::queue::InsufficientBalance::Refuse;
    fixture.set_model_state(MODEL, ModelState::Paused).await;
    database.create_task(&other, refuse, 10, NOW).await.unwrap();
    assert_eq!(database.published(MODEL).await.unwrap().unwrap().state, ModelState::Paused);
    assert_eq!(claim().await, Some(other.id));
    // A claim without a task does not delete the turns of a paused model.
    assert_eq!(claim().await, None);
    let queued = database.queued_of_model(MODEL).await.unwrap();
    assert_eq!(queued, [(fixture.customer, waiting.clone())]);
    fixture.assert_books_are_right().await;
    fixture.set_model_state(MODEL, ModelState::Active).await;
    assert_eq!(claim().await, Some(waiting));
    assert_eq!(database.all_models(1, 0).await.unwrap()[0].state, ModelState::Active);
}

pub(crate) async fn the_queue_is_as_old_as_its_oldest_task_that_may_run(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    database.publish(&[model("other", fixture.operator)], Existing::Keep).await.unwrap();
    let late = fixture.account("late").await.id;
    let other = NewTask { model: "other".to_owned(), ..fixture.task(Money::ZERO) };
    let refuse = crate::queue::InsufficientBalance::Refuse;
    fixture.create_task(fixture.customer, 0, Moment(1)).await;
    database.create_task(&other, refuse, 10, Moment(2)).await.unwrap();
    fixture.create_task(late, 0, Moment(3)).await;
    let ages = async || {
        let loads = database.model_loads(NOW).await.unwrap();
        let of_models = loads.into_iter().map(|load| (load.model, load.queued, load.waits_since));
        (database.oldest_queued().await.unwrap(), of_models.collect::<Vec<_>>())
    };
    let expected = |oldest: Option<i64>, echo: Option<i64>, other: Option<i64>| {
        let of_models =
            vec![(MODEL.to_owned(), 2, echo.map(Moment)), ("other".to_owned(), 1, other.map(Moment))];
        (oldest.map(Moment), of_models)
    };
    assert_eq!(ages().await, expected(Some(1), Some(1), Some(2)));
    fixture.set_model_state(MODEL, ModelState::Paused).await;
    assert_eq!(ages().await, expected(Some(2), None, Some(2)));
    fixture.set_model_state(MODEL, ModelState::Active).await;
    assert!(database.set_state(fixture.customer, AccountState::Suspended, NOW).await.unwrap());
    assert_eq!(ages().await, expected(Some(3), Some(3), None));
    assert!(database.set_state(late, AccountState::Suspended, NOW).await.unwrap());
    assert_eq!(ages().await, expected(None, None, None));
    assert!(database.set_state(fixture.customer, AccountState::Active, NOW).await.unwrap());
    assert_eq!(ages().await, expected(Some(1), Some(1), Some(2)));
}

pub(crate) async fn the_log_of_the_operator_is_listed_newest_first(engine: impl Engine) {
    let mut fixture = Fixture::new(engine).await;
    let action = |number: i64| Action {
        at: Moment(number),
        request: format!("POST /accounts/{number}"),
        body: (number != 2).then(|| "{}".to_owned()),
        status: 200,
    };
    for number in 1..=3 {
        fixture.database.record_action(&action(number)).await.unwrap();
    }
    fixture.crash().await;
    assert_eq!(fixture.database.actions(10, 0).await.unwrap(), [3, 2, 1].map(action));
    assert_eq!(fixture.database.actions(1, 1).await.unwrap(), [action(2)]);
}
