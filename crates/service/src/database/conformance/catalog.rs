//! Conformance of model lists: every order, filter and page equals the result of sorting all models.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::{Engine, Fixture, model};
use crate::accounts::AccountId;
use crate::catalog::{
    Existing, Filter, Model, ModelChange, ModelState, ModelSummary, NewModel, NewVersion, Search, Sort,
    Visibility, folded,
};
use crate::clock::Moment;
use crate::ledger::Money;
use crate::queue::{InsufficientBalance, NewTask};

fn is_listed(model: &NewModel, caller: AccountId, organization: AccountId, filter: Option<Filter>) -> bool {
    let listed = model.is_public || model.owner == caller;
    match filter {
        None => listed,
        Some(Filter::Official) => listed && model.is_official,
        Some(Filter::Community) => listed && !model.is_official,
        Some(Filter::Playground) => listed && model.is_playground,
        Some(Filter::Public) => model.is_public,
        Some(Filter::Author) => model.owner == caller,
        Some(Filter::Permission) => listed || model.owner == organization,
    }
}

fn sort(models: &mut [&NewModel], sort: Sort, tasks: impl Fn(&NewModel) -> usize) {
    match sort {
        Sort::CreatedOldest => models.sort_by_key(|model| model.created_at),
        Sort::Created => {
            models.reverse();
            models.sort_by_key(|model| Reverse(model.created_at));
        }
        Sort::Modified => {
            models.reverse();
            models.sort_by_key(|model| Reverse(model.updated_at));
        }
        Sort::Likes => models.sort_by_key(|model| Reverse(model.likes)),
        Sort::Downloads => models.sort_by_key(|model| Reverse(model.downloads)),
        Sort::Trending => models.sort_by_key(|model| Reverse((tasks(model), model.likes))),
    }
}

pub(crate) async fn every_list_is_what_sorting_all_models_would_give(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (caller, organization) = (fixture.customer, fixture.account("organization").await.id);
    fixture.database.add_member(organization, caller).await.unwrap();
    let owners = [fixture.operator, caller, organization, fixture.account("other").await.id];
    let mut random = fastrand::Rng::with_seed(1);
    let mut models = vec![model(super::MODEL, fixture.operator)];
    for number in 0..1_500 {
        models.push(NewModel {
            description: ["Ein Hund", "Une ÉCOLE", "A cat"][random.usize(..3)].to_owned(),
            is_official: random.bool(),
            is_public: random.u8(..4) > 0,
            is_playground: random.bool(),
            likes: random.i64(..4),
            downloads: random.i64(..4),
            created_at: Moment(random.i64(..5)),
            updated_at: Moment(random.i64(..5)),
            ..model(&format!("model-{number}"), owners[random.usize(..owners.len())])
        });
    }
    fixture.database.publish(&models, Existing::Keep).await.unwrap();
    let used: Vec<String> = (0..20).map(|_| models[random.usize(..models.len())].id.clone()).collect();
    for model in &used {
        let task = NewTask { model: model.clone(), ..fixture.task(Money::ZERO) };
        fixture.database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0)).await.unwrap();
    }
    let tasks = |model: &NewModel| used.iter().filter(|used| **used == model.id).count();

    for filter in Filter::ALL.into_iter().map(Some).chain([None]) {
        for order in Sort::ALL {
            for text in [None, Some("école")] {
                let fits = |model: &&NewModel| {
                    is_listed(model, caller, organization, filter)
                        && text.is_none_or(|text| folded(&model.description).contains(&folded(text)))
                };
                let mut expected: Vec<&NewModel> = models.iter().filter(fits).collect();
                sort(&mut expected, order, tasks);
                for offset in [0, 7, 100, 600, 1_000, 1_215, 5_000] {
                    let search = Search {
                        caller,
                        text: text.map(str::to_owned),
                        sort: order,
                        filter,
                        limit: 7,
                        offset,
                        now: Moment(0),
                    };
                    let (page, total) = fixture.database.models(&search).await.unwrap();
                    let page: Vec<String> = page.into_iter().map(|model| model.id).collect();
                    let skipped = expected.iter().skip(usize::try_from(offset).unwrap());
                    let of_page: Vec<String> = skipped.take(7).map(|model| model.id.clone()).collect();
                    assert_eq!((page, total), (of_page, expected.len() as u64), "{search:?}");
                }
            }
        }
    }
}

pub(crate) async fn a_search_finds_the_models_that_contain_its_text_whatever_that_is(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let mut models = Vec::new();
    for (number, text) in AWKWARD.iter().enumerate() {
        let description = AWKWARD[(number * 7 + 3) % AWKWARD.len()].to_owned();
        let name = (*text).to_owned();
        models.push(NewModel { name, description, ..model(&format!("m{number}"), fixture.operator) });
    }
    fixture.database.publish(&models, Existing::Keep).await.unwrap();
    let found = async |text: &str, sort| {
        let (caller, text) = (fixture.customer, Some(text.to_owned()));
        let search = Search { caller, text, sort, filter: None, limit: 100, offset: 0, now: Moment(0) };
        let (page, total) = fixture.database.models(&search).await.unwrap();
        assert_eq!(page.len() as u64, total);
        page.into_iter().map(|model| model.id).filter(|id| id != super::MODEL).collect::<Vec<_>>()
    };
    let mut texts = BTreeSet::from(AWKWARD.map(str::to_owned));
    for text in AWKWARD {
        let characters: Vec<char> = text.chars().collect();
        texts.extend([1, 3, 4].iter().flat_map(|length| characters.windows(*length)).map(String::from_iter));
    }
    for text in texts {
        let contains = |model: &&NewModel| {
            [&model.name, &model.description].iter().any(|whole| folded(whole).contains(&folded(&text)))
        };
        let expected: Vec<&str> = models.iter().filter(contains).map(|model| &*model.id).collect();
        assert_eq!(found(&text, Sort::CreatedOldest).await, expected, "{text:?}");
        assert_eq!(found(&text, Sort::Trending).await, expected, "{text:?} by trend");
    }
    let renamed = NewModel { name: "renamed".to_owned(), ..models.swap_remove(4) };
    fixture.database.publish(&[renamed], Existing::Refresh).await.unwrap();
    assert_eq!(found("enam", Sort::Created).await, ["m4"]);
    assert!(found("abcd", Sort::Created).await.iter().all(|id| id != "m4"));
}

const AWKWARD: [&str; 40] = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "ab cd",
    "  ",
    "   ",
    "say \"hi\" to me",
    "\"\"\"",
    "it's",
    "100% of_all*",
    "a*b",
    "%%%",
    "___",
    "NEAR(a b)",
    "a AND b OR NOT c",
    "folded_name:abc",
    "-abc",
    "^abc",
    "(abc",
    "e\u{301}te\u{301}",
    "été",
    "ÉTÉ",
    "ete",
    "straße",
    "ΟΔΥΣΣΕΥΣ",
    "👩\u{200d}👩\u{200d}👧",
    "👩👩👧",
    "日本語",
    "日本語の画像",
    "a\0b\0c",
    "abc\0def",
    "\u{fffe}\u{ffff}\u{fffd}",
    "\u{fffd}\u{fffd}\u{fffd}",
    "\n\t\r",
    "a\nb",
    "\\a\\b",
    "abcabcabcabcabcabcabcabcabcabcabcabcd",
    "bcabcabcabcabcabcabcabcabcabcabcabcab",
];

pub(crate) async fn the_next_page_after_a_change_of_the_catalog_shows_it(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let sorted = async |caller, sort, filter| {
        let now = Moment(0);
        let search = Search { caller, text: None, sort, filter, limit: 10, offset: 0, now };
        let (page, total) = database.models(&search).await.unwrap();
        assert_eq!(page.len() as u64, total);
        page.into_iter().map(|model| (model.id, model.price)).collect::<Vec<_>>()
    };
    let page = async |caller| sorted(caller, Sort::Modified, None).await;
    let (caller, operator) = (fixture.customer, fixture.operator);
    let first = (super::MODEL.to_owned(), Money::ZERO);
    assert_eq!(page(caller).await, slice::from_ref(&first));

    let second = NewModel { updated_at: Moment(1), ..model("second", operator) };
    database.publish(&[second], Existing::Keep).await.unwrap();
    let second = ("second".to_owned(), Money::ZERO);
    assert_eq!(page(caller).await, [second.clone(), first.clone()]);

    let other = NewVersion { commit_hash: "two".to_owned(), ..model("second", operator).version };
    database.publish_version(operator, super::MODEL, &other, Moment(2)).await.unwrap();
    assert_eq!(page(caller).await, [first, second.clone()]);

    let price = Some(Money::from_smallest(5));
    let visibility = Some(Visibility::Private);
    let change = ModelChange { price, visibility, ..ModelChange::default() };
    assert!(database.change_model(super::MODEL, change, Moment(3)).await.unwrap());
    assert_eq!(page(caller).await, slice::from_ref(&second));
    let changed = (super::MODEL.to_owned(), Money::from_smallest(5));
    assert_eq!(page(operator).await, [changed.clone(), second.clone()]);

    // Pages that depend on other tables than the catalog are not cached.
    let permitted = async || sorted(caller, Sort::Modified, Some(Filter::Permission)).await;
    assert_eq!(permitted().await, slice::from_ref(&second));
    database.add_member(operator, caller).await.unwrap();
    assert_eq!(permitted().await, [changed.clone(), second.clone()]);
    let trending = async || sorted(operator, Sort::Trending, None).await;
    assert_eq!(trending().await, [changed.clone(), second.clone()]);
    let task = NewTask { model: "second".to_owned(), ..fixture.task(Money::ZERO) };
    database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0)).await.unwrap();
    assert_eq!(trending().await, [second.clone(), changed.clone()]);
    database.consolidate().await.unwrap();
    let week = Duration::from_hours(7 * 24);
    for (now, expected) in
        [(Moment(-1).after(week), [&second, &changed]), (Moment(0).after(week), [&changed, &second])]
    {
        database.forget_uses(now).await.unwrap();
        assert_eq!(trending().await.iter().collect::<Vec<_>>(), expected, "what no list counts is forgotten");
    }
}

pub(crate) async fn a_publisher_changes_what_it_states_anew(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let first = NewModel { price: Money::from_smallest(1), ..model("second", fixture.customer) };
    database.publish(slice::from_ref(&first), Existing::Keep).await.unwrap();
    let metadata = json!({ "license": "MIT" });
    let change = ModelChange {
        name: Some("Of the operator".to_owned()),
        description: Some("ÉTÉ".to_owned()),
        metadata: metadata.as_object().cloned(),
        price: Some(Money::from_smallest(5)),
        visibility: Some(Visibility::Private),
        ..ModelChange::default()
    };
    assert!(database.change_model("second", change, Moment(1)).await.unwrap());
    let stored = async || {
        let published = database.published("second").await.unwrap().unwrap();
        let Model { summary, metadata, .. } = published.model.clone();
        let ModelSummary { name, description, price, visibility, .. } = summary;
        let hash = published.version.commit_hash.clone();
        ((name, description, metadata.get().to_owned()), price.smallest(), visibility, hash)
    };
    let found = async |text: &str| {
        let (caller, sort, now) = (fixture.customer, Sort::Created, Moment(1));
        let search =
            Search { caller, text: Some(folded(text)), sort, filter: None, limit: 1, offset: 0, now };
        database.models(&search).await.unwrap().1
    };
    let texts =
        |name: &str, description: &str, metadata: &str| (name.into(), description.into(), metadata.into());
    let of_operator = texts("Of the operator", "ÉTÉ", r#"{"license":"MIT"}"#);
    let hash = first.version.commit_hash.clone();
    assert_eq!(stored().await, (of_operator.clone(), 5, Visibility::Private, hash.clone()));
    assert_eq!((found("OF the op").await, found("été").await), (1, 1), "a search finds the new texts");

    let restate =
        async |model: &NewModel| database.publish(slice::from_ref(model), Existing::Restate).await.unwrap();
    assert_eq!(restate(&first).await, 0);
    assert_eq!(stored().await, (of_operator, 5, Visibility::Private, hash), "what is stated as before");

    let version = NewVersion { commit_hash: "new".to_owned(), ..first.version.clone() };
    let second =
        NewModel { description: "Stated".to_owned(), price: Money::from_smallest(2), version, ..first };
    assert_eq!((restate(&second).await, restate(&second).await), (1, 0));
    let mixed = texts("Of the operator", "Stated", r#"{"license":"MIT"}"#);
    assert_eq!(stored().await, (mixed, 2, Visibility::Private, "new".to_owned()), "a field each");
    assert_eq!((found("été").await, found("stated").await), (0, 1));

    let third = NewModel {
        name: "Third".to_owned(),
        metadata: RawValue::from_string(r#"{"license":"BSD"}"#.to_owned()).unwrap(),
        is_public: !second.is_public,
        ..second
    };
    let stated = [&third, &NewModel { is_public: !third.is_public, ..third.clone() }];
    for model in stated {
        assert_eq!(restate(model).await, 1);
        let shown = if model.is_public { Visibility::Public } else { Visibility::Private };
        let all = texts("Third", "Stated", r#"{"license":"BSD"}"#);
        assert_eq!(stored().await, (all, 2, shown, "new".to_owned()));
    }
    let of_operator = NewVersion { commit_hash: "of the operator".to_owned(), ..third.version.clone() };
    database.publish_version(third.owner, "second", &of_operator, Moment(1)).await.unwrap().unwrap();
    for model in [&third, &NewModel { price: Money::from_smallest(3), ..third.clone() }] {
        restate(model).await;
        assert_eq!(stored().await.3, "of the operator", "formats that are stated as before");
    }
    let version = NewVersion { commit_hash: "newest".to_owned(), ..third.version.clone() };
    let third = NewModel { version, ..third };
    assert_eq!((restate(&third).await, stored().await.3), (1, "newest".to_owned()));
    let of_another = NewModel { owner: fixture.operator, name: "Stolen".to_owned(), ..third };
    assert_eq!(restate(&of_another).await, 0);
    assert_eq!(stored().await.0.0, "Third");
}

pub(crate) async fn what_an_operator_decided_of_a_built_in_model_survives_a_restart(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let database = &fixture.database;
    let change = ModelChange {
        price: Some(Money::from_smallest(5)),
        visibility: Some(Visibility::Private),
        is_verified: Some(false),
        is_playground: Some(true),
        state: Some(ModelState::Paused),
        ..ModelChange::default()
    };
    assert!(database.change_model(super::MODEL, change, Moment(1)).await.unwrap());
    let described = NewModel { description: "New".to_owned(), ..model(super::MODEL, fixture.operator) };
    for changed in [1, 0] {
        let published = database.publish(slice::from_ref(&described), Existing::Refresh).await.unwrap();
        assert_eq!(published, changed);
    }
    assert_eq!(database.published(super::MODEL).await.unwrap().unwrap().state, ModelState::Paused);
    let filter = Some(Filter::Playground);
    let (caller, sort, now) = (fixture.operator, Sort::Created, Moment(1));
    let search = Search { caller, text: None, sort, filter, limit: 1, offset: 0, now };
    let (page, _) = database.models(&search).await.unwrap();
    let kept = page.first().unwrap();
    assert_eq!((&*kept.description, kept.price.smallest(), kept.is_verified), ("New", 5, false));
    assert_eq!(kept.visibility, Visibility::Private);
    let named = ModelChange { name: Some("Named".to_owned()), ..ModelChange::default() };
    assert!(database.change_model(super::MODEL, named, Moment(2)).await.unwrap());
    assert_eq!(database.publish(&[described], Existing::Refresh).await.unwrap(), 0);
    let name = database.published(super::MODEL).await.unwrap().unwrap().model.summary.name.clone();
    assert_eq!(name, "Named", "a start of the service keeps the name of the operator");

    let one = model("built in", fixture.operator);
    let version = |name: &str| NewVersion { commit_hash: name.to_owned(), ..one.version.clone() };
    let refresh = async |name: &str| {
        let model = NewModel { version: version(name), ..one.clone() };
        database.publish(slice::from_ref(&model), Existing::Refresh).await.unwrap()
    };
    let decide = async |name: &str, second| {
        let version = version(name);
        database.publish_version(fixture.operator, "built in", &version, Moment(second)).await.unwrap()
    };
    let active = async || database.published("built in").await.unwrap().unwrap().version.commit_hash.clone();
    assert_eq!((refresh("one").await, refresh("two").await, refresh("one").await), (1, 1, 0));
    assert_eq!(active().await, "two", "one that was there is not brought back");
    assert_eq!(decide("of the operator", 2).await, Some(true));
    assert_eq!((refresh("two").await, refresh("three").await), (0, 0));
    assert_eq!(active().await, "of the operator", "what the operator published stays");
    assert_eq!(decide("two", 3).await, Some(true));
    assert_eq!(refresh("three").await, 1, "the operator went back to a built-in one");
    assert_eq!(active().await, "three");
    let kept = NewModel { version: version("four"), ..one.clone() };
    assert_eq!(database.publish(slice::from_ref(&kept), Existing::Keep).await.unwrap(), 0);
    assert_eq!(active().await, "three", "what is there is kept");
}
