//! Conformance of the registry: live nodes by model, and the tasks that a slot claims.

use super::queue::slot;
use super::{Engine, Fixture, MODEL, RULES};
use crate::accounts::NewKey;
use crate::clock::Moment;
use crate::queue::{Claim, Created, Slot};

const NOW: Moment = Moment(1_000_000);

pub(crate) async fn a_node_is_there_for_the_models_of_the_slots_that_were_seen(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let key = NewKey::draw(&fixture.random).unwrap().kept;
    database.add_node_key("lab", &key, None, NOW).await.unwrap();
    let models = |models: &[&str]| models.iter().map(|&model| model.to_owned()).collect::<Vec<_>>();
    let register = async |node: &str, key: Option<&str>, served: &[&str]| {
        assert!(database.register(node, key, &models(served), NOW).await.unwrap());
    };
    register("outside", Some("lab"), &[MODEL, "beside", "broken"]).await;
    let served = async |now: Moment| {
        let mut served = database.models_of_outside_nodes(now.before(RULES.length)).await.unwrap();
        served.sort_unstable();
        for model in [MODEL, "beside", "broken"] {
            let serving = database.serving(model, now.before(RULES.length)).await.unwrap().serving;
            assert_eq!(serving, served.iter().any(|served| served == model), "{model}");
        }
        served
    };
    assert_eq!(served(NOW).await, models(&["beside", "broken", MODEL]), "it has just come");
    let later = NOW.after(RULES.length * 2);
    assert_eq!(served(later).await, models(&[]));
    let slot_of_two = [("outside".to_owned(), models(&[MODEL, "beside"]).into())];
    database.touch_slots(&slot_of_two, later).await.unwrap();
    assert_eq!(served(later).await, models(&["beside", MODEL]));

    let task = fixture.create(fixture.customer, u32::MAX).await;
    assert!(matches!(task, Created::Queued));
    let claims = database.claim(&[slot("outside")], RULES, later).await.unwrap();
    let [Claim::Leased(lease)] = &claims[..] else { panic!("{claims:?}") };
    let later = later.after(RULES.length * 2);
    assert_eq!(served(later).await, models(&[]));
    database.touch_running("outside", &lease.task, later).await.unwrap();
    assert_eq!(served(later).await, models(&["beside", MODEL]));
    let known = database.known_node("outside", "lab").await.unwrap().unwrap();
    assert_eq!(known.models.iter().filter(|(_, seen_at)| *seen_at == later).count(), 2);

    register("local", None, &["broken"]).await;
    assert!(database.serving("broken", NOW).await.unwrap().serving);
    assert!(!database.serving("broken", later).await.unwrap().serving);
    assert_eq!(database.models_of_outside_nodes(later).await.unwrap().len(), 2);
}

pub(crate) async fn a_slot_passes_accounts_over(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let other = fixture.account("other").await.id;
    for account in [fixture.customer, fixture.customer, other] {
        fixture.create(account, u32::MAX).await;
    }
    let passing = |account| Slot { passed_over: vec![account], ..slot("node") };
    let slots = [passing(fixture.customer), passing(fixture.customer), passing(other), passing(other)];
    let claims = fixture.claim(RULES, &slots, NOW).await;
    let accounts: Vec<_> = claims.into_iter().map(|lease| lease.map(|lease| lease.account)).collect();
    let customer = Some(fixture.customer);
    assert_eq!(accounts, [Some(other), None, customer, customer]);
}
