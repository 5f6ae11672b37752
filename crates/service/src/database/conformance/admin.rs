//! Conformance of the operator's lists, changes and refunds, and of folding old movements.

use super::{Engine, Fixture, MODEL, model};
use crate::accounts::{AccountId, NewAccount, NewKey, Scope};
use crate::catalog::{Existing, ModelChange, Visibility};
use crate::clock::Moment;
use crate::ledger::{Credit, Money, Purse, Purses};
use crate::operator::{Refund, TaskFilter};
use crate::queue::{Ending, InsufficientBalance, Status};

const NODE: &str = "local";

const ALL: TaskFilter = TaskFilter { account: None, status: None, limit: 10, offset: 0 };

fn money(units: i64) -> Money {
    Money::from_smallest(units)
}

impl<E: Engine> Fixture<E> {
    pub(crate) async fn create_task(&self, account: AccountId, price: i64, now: Moment) -> String {
        let task = crate::queue::NewTask { account, ..self.task(money(price)) };
        self.database.create_task(&task, InsufficientBalance::Refuse, 10, now).await.unwrap();
        task.id
    }

    async fn end_next(&self, ending: Ending, now: Moment) {
        let lease = self.claim_one(now).await.unwrap();
        self.end(&lease, &ending, now).await;
    }

    pub(crate) async fn succeed(&self, now: Moment) {
        self.end_next(Ending::Output(r#"{"said":"hello"}"#.to_owned()), now).await;
    }

    async fn purses(&self, account: AccountId) -> Purses {
        self.database.purses(account).await.unwrap()
    }
}

pub(crate) async fn keys_are_listed_newest_first_and_found_by_a_beginning(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    for (text, created_at) in [("isk_aaaa1_secretsecret", 1), ("isk_aaaa2_secretsecret", 2)] {
        let key = NewKey::chosen(text).unwrap().kept;
        database.add_key(fixture.customer, &key, Moment(created_at)).await.unwrap();
    }
    assert!(database.revoke_key("aaaa2", Moment(3)).await.unwrap());
    for not_valid in ["aaaa2", "absent"] {
        assert!(!database.revoke_key(not_valid, Moment(4)).await.unwrap(), "{not_valid}");
    }
    let keys = database.keys(fixture.customer).await.unwrap();
    let listed: Vec<_> = keys.iter().map(|key| (&*key.key, key.created_at, key.revoked_at)).collect();
    assert_eq!(listed, [("aaaa2", Moment(2), Some(Moment(3))), ("aaaa1", Moment(1), None)]);
    assert!(database.keys(fixture.operator).await.unwrap().is_empty());

    assert_eq!(database.keys_like("aaaa").await.unwrap(), ["aaaa1"], "a revoked key is not found");
    assert!(database.keys_like("aaa_").await.unwrap().is_empty(), "a beginning has no wildcards");
    let more = NewKey::chosen("isk_aaaa3_secretsecret").unwrap().kept;
    database.add_key(fixture.operator, &more, Moment(4)).await.unwrap();
    let exact = NewKey::chosen("isk_aaaa_secretsecret").unwrap().kept;
    database.add_key(fixture.operator, &exact, Moment(5)).await.unwrap();
    assert_eq!(database.keys_like("aaaa").await.unwrap(), ["aaaa", "aaaa1"], "an identifier comes first");
}

pub(crate) async fn memberships_are_listed_from_both_sides(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let studio = NewAccount::draw("studio", Scope::Organization, &fixture.random).unwrap();
    let studio = database.add_account(&studio, Moment(0)).await.unwrap().id;
    let anna = fixture.account("anna").await.id;
    for person in [fixture.customer, anna] {
        database.add_member(studio, person).await.unwrap();
    }
    assert_eq!(database.memberships(studio, Scope::Organization).await.unwrap(), ["anna", "customer"]);
    assert_eq!(database.memberships(anna, Scope::Personal).await.unwrap(), ["studio"]);
    assert!(database.is_member(studio, anna).await.unwrap());
    assert!(database.remove_member(studio, anna, Moment(1)).await.unwrap());
    assert!(database.memberships(anna, Scope::Personal).await.unwrap().is_empty());
    assert!(!database.is_member(studio, anna).await.unwrap());
    assert!(!database.remove_member(studio, anna, Moment(2)).await.unwrap(), "it was none");
    assert!(database.is_member(studio, fixture.customer).await.unwrap());
}

pub(crate) async fn a_change_of_a_model_leaves_what_it_does_not_name(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    database.publish(&[model("second", fixture.customer)], Existing::Keep).await.unwrap();
    let change = ModelChange { price: Some(money(7)), is_playground: Some(true), ..ModelChange::default() };
    assert!(database.change_model(MODEL, change, Moment(5)).await.unwrap());
    let hide = ModelChange {
        visibility: Some(Visibility::Private),
        is_verified: Some(false),
        ..ModelChange::default()
    };
    assert!(database.change_model(MODEL, hide.clone(), Moment(6)).await.unwrap());
    assert!(!database.change_model("absent", hide, Moment(6)).await.unwrap());

    let models = database.all_models(10, 0).await.unwrap();
    let names: Vec<_> = models.iter().map(|model| (&*model.model, &*model.publisher)).collect();
    assert_eq!(names, [(MODEL, crate::accounts::OPERATOR), ("second", "customer")]);
    let changed = &models[0];
    assert_eq!((changed.price, changed.is_playground, changed.updated_at), (money(7), true, Moment(6)));
    assert!(changed.visibility == Visibility::Private && !changed.is_verified && changed.is_official);
    assert_eq!((models[1].visibility, models[1].price), (Visibility::Public, Money::ZERO));
    assert_eq!(database.all_models(1, 1).await.unwrap()[0].model, "second");
    assert_eq!(database.published(MODEL).await.unwrap().unwrap().model.summary.price, money(7));
}

pub(crate) async fn nodes_are_listed_with_their_keys(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let models = [MODEL.to_owned(), "another".to_owned()];
    let keys = [("lab", Some(&models[..])), ("unused", None)];
    for (name, models) in keys {
        let key = NewKey::draw(&fixture.random).unwrap().kept;
        assert!(database.add_node_key(name, &key, models, Moment(1)).await.unwrap());
    }
    database.register(NODE, None, &models[..1], Moment(2)).await.unwrap();
    database.register("node-1", Some("lab"), &models[..1], Moment(3)).await.unwrap();
    let listed = async || {
        let mut nodes = database.nodes().await.unwrap();
        nodes.sort_by_key(|node| node.key.clone());
        nodes.into_iter().map(|node| (node.key, node.node, node.seen_at, node.models)).collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    let served = Some(models[..1].to_vec());
    assert_eq!(
        listed().await,
        [
            (None, text(NODE), Some(Moment(2)), served.clone()),
            (text("lab"), text("node-1"), Some(Moment(3)), served.clone()),
            (text("unused"), None, None, None),
        ]
    );
    assert!(database.revoke_node_key("lab", Moment(4)).await.unwrap());
    assert_eq!(
        listed().await[1],
        (text("lab"), None, None, Some(models.to_vec())),
        "its nodes are forgotten"
    );
}

pub(crate) async fn tasks_of_all_accounts_are_listed_newest_first(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let other = fixture.account("other").await.id;
    let first = fixture.create_task(fixture.customer, 0, Moment(1)).await;
    let second = fixture.create_task(other, 0, Moment(2)).await;
    let third = fixture.create_task(fixture.customer, 0, Moment(3)).await;
    fixture.succeed(Moment(4)).await;
    let listed = async |filter: TaskFilter| {
        let tasks = database.all_tasks(filter).await.unwrap();
        tasks.into_iter().map(|task| task.task).collect::<Vec<_>>()
    };
    assert_eq!(listed(ALL).await, [&*third, &second, &first]);
    assert_eq!(listed(TaskFilter { limit: 1, offset: 1, ..ALL }).await, [&*second]);
    assert_eq!(listed(TaskFilter { account: Some(other), ..ALL }).await, [&*second]);
    let queued = TaskFilter { account: Some(fixture.customer), status: Some(Status::Queued), ..ALL };
    assert_eq!(listed(queued).await, [&*third]);

    let task = database.any_task(&first).await.unwrap().unwrap();
    assert_eq!((&*task.overview.account, task.overview.status), ("customer", Status::Success));
    assert_eq!((task.input.get(), task.output.unwrap().get()), ("{}", r#"{"said":"hello"}"#));
    assert!(task.error.is_none() && !task.overview.is_refunded);
    assert_eq!((task.overview.created_at, task.overview.updated_at), (Moment(1), Moment(4)));
    assert!(database.any_task("absent").await.unwrap().is_none());
}

pub(crate) async fn a_charge_is_refunded_once_to_the_purses_that_it_came_from(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    for credit in [Credit::Free(money(3)), Credit::Paid(money(10))] {
        database.credit(fixture.customer, credit, Moment(0)).await.unwrap();
    }
    let before = fixture.purses(fixture.customer).await;
    let task = fixture.create_task(fixture.customer, 8, Moment(1)).await;
    assert_eq!(database.refund(&task, Moment(1)).await.unwrap(), Refund::NotCharged, "it is queued");
    fixture.succeed(Moment(2)).await;
    let spend = async |amount: i64| {
        database.set_purses(fixture.operator, &[(Purse::Earnings, money(amount))], Moment(3)).await.unwrap();
    };
    spend(7).await;
    let too_small = Refund::EarningsTooSmall { earnings: money(7) };
    assert_eq!(database.refund(&task, Moment(3)).await.unwrap(), too_small);
    spend(8).await;
    let done = Refund::Done { account: "customer".to_owned(), amount: money(8) };
    assert_eq!(database.refund(&task, Moment(4)).await.unwrap(), done);
    assert_eq!(database.refund(&task, Moment(5)).await.unwrap(), Refund::Already);
    assert_eq!(database.refund("absent", Moment(5)).await.unwrap(), Refund::Unknown);
    assert_eq!(fixture.purses(fixture.customer).await, before);
    assert!(database.any_task(&task).await.unwrap().unwrap().overview.is_refunded);

    let failed = fixture.create_task(fixture.customer, 1, Moment(6)).await;
    let error = Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() };
    fixture.end_next(error, Moment(7)).await;
    assert_eq!(database.refund(&failed, Moment(8)).await.unwrap(), Refund::NotCharged);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn old_movements_are_added_up_and_every_balance_stays(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    for second in 0..80 {
        let credit = if second % 2 == 0 { Credit::Paid(money(2)) } else { Credit::Free(money(3)) };
        database.credit(fixture.customer, credit, Moment(second)).await.unwrap();
    }
    fixture.create_task(fixture.customer, 5, Moment(80)).await;
    fixture.succeed(Moment(80)).await;
    let movements = async || database.audit().await.unwrap().movements;
    let (all, purses) = (movements().await, fixture.purses(fixture.customer).await);

    assert_eq!(database.carry_movements(Moment(60), Moment(100)).await.unwrap(), 60);
    assert_eq!(movements().await, all - 60 + 2, "one for each pair of purses");
    assert_eq!(database.carry_movements(Moment(60), Moment(100)).await.unwrap(), 0);
    assert_eq!(fixture.purses(fixture.customer).await, purses);
    fixture.assert_books_are_right().await;
}
