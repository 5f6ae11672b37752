//! Catalog: content and order of lists, and the detail of one model.

use std::collections::BTreeSet;

use inferstore_document::kinds;
use inferstore_service::{ModelChange, Money, Scope};
use serde_json::{Value, json};

use super::{MODEL, an_input, start, start_with_fixtures};
use crate::support::caller::Caller;
use crate::support::deployment::Deployment;

const LIST: &str = "/api-key/model/list";

fn price(amount: Money) -> ModelChange {
    ModelChange { price: Some(amount), ..ModelChange::default() }
}

async fn list(caller: &Caller, query: Value) -> Vec<String> {
    let mut query = query;
    query["limit"] = json!(100);
    let answer = caller.post(LIST, &query).await;
    let ids = ids(answer.data());
    assert_eq!(answer.data()["total"], ids.len(), "{query}");
    ids
}

fn ids(page: &Value) -> Vec<String> {
    let records = page["records"].as_array().map(Vec::as_slice).unwrap_or_default();
    records.iter().map(|record| record["id"].as_str().expect("an identifier").to_owned()).collect()
}

async fn record(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("/api-key/model/{id}")).await.data().clone()
}

async fn keyed(service: &Deployment, caller: &Caller, username: &str) -> Caller {
    caller.with_key(Some(&service.add_key(username).await.expect("a key")))
}

#[tokio::test]
async fn a_search_finds_a_part_of_the_name_or_of_the_description_in_any_case() {
    let (_service, caller) = start_with_fixtures().await;
    for (text, found) in [
        ("harmonization", vec!["color-harmonization"]),
        ("HARMON", vec!["color-harmonization"]),
        ("color_ext", vec!["color-extraction"]),
        ("hex codes", vec!["color-extraction"]),
        ("ÉCRIT un TEXTE", vec!["carte-postale"]),
        ("carte postale", vec!["carte-postale"]),
        ("de L'ÉTÉ", vec!["carte-postale"]),
        ("background_re", vec!["background-replacement", "background-removal"]),
        ("%", vec![]),
        ("color%extraction", vec![]),
        ("color.extraction", vec![]),
        ("l_w", vec![]),
        ("\\", vec![]),
        ("'été", vec!["carte-postale"]),
        ("neural network", vec![]),
        ("no such text", vec![]),
        ("\u{0}", vec![]),
    ] {
        assert_eq!(list(&caller, json!({ "search": text })).await, found, "{text}");
    }
    let everything = list(&caller, json!({})).await;
    assert_eq!(everything.len(), 18);
    assert_eq!(list(&caller, json!({ "search": "" })).await, everything);
}

#[tokio::test]
async fn a_search_without_a_match_has_no_records() {
    let (_service, caller) = start_with_fixtures().await;
    let answer = caller.post(LIST, &json!({ "search": "no such text" })).await;
    assert_eq!(answer.data(), &json!({ "records": null, "total": 0 }));
    let answer = caller.post(LIST, &json!({ "offset": 18 })).await;
    assert_eq!(answer.data(), &json!({ "records": [], "total": 18 }), "something matches, on other pages");
}

#[tokio::test]
async fn a_page_is_a_slice_of_the_whole_in_every_order() {
    let (_service, caller) = start_with_fixtures().await;
    for sort in ["created_oldest", "created", "modified", "likes", "downloads", "trending"] {
        let whole = list(&caller, json!({ "sort": sort })).await;
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), whole.len());
        for limit in [1, 4, 18, 100] {
            let mut joined = Vec::new();
            for offset in (0..whole.len() + limit).step_by(limit) {
                let query = json!({ "sort": sort, "limit": limit, "offset": offset });
                let answer = caller.post(LIST, &query).await;
                assert_eq!(answer.data()["total"], whole.len());
                joined.extend(ids(answer.data()));
            }
            assert_eq!(joined, whole, "{sort} {limit}");
        }
        let default = caller.post(LIST, &json!({ "sort": sort })).await;
        assert_eq!(ids(default.data()), whole[..10], "a page holds ten by default");
    }
    let far = caller.post(LIST, &json!({ "offset": i64::MAX })).await;
    assert_eq!(far.data()["records"], json!([]));
}

#[tokio::test]
async fn times_order_as_they_say() {
    let (service, caller) = start_with_fixtures().await;
    let mut stamps = Vec::new();
    for id in list(&caller, json!({})).await {
        let record = record(&caller, &id).await;
        stamps.push((record["created_at"].clone(), record["updated_at"].clone(), id));
    }
    let text = |value: &Value| value.as_str().expect("a stamp").to_owned();
    let mut by_creation = stamps.clone();
    by_creation.sort_by_key(|(created, ..)| text(created));
    let oldest: Vec<String> = by_creation.into_iter().map(|(.., id)| id).collect();
    assert_eq!(list(&caller, json!({ "sort": "created_oldest" })).await, oldest);
    assert_eq!(list(&caller, json!({})).await, oldest, "the default order");
    let newest: Vec<String> = oldest.into_iter().rev().collect();
    assert_eq!(list(&caller, json!({ "sort": "created" })).await, newest);

    let modified = list(&caller, json!({ "sort": "modified" })).await;
    stamps.sort_by_key(|(_, updated, _)| std::cmp::Reverse(text(updated)));
    let updates = |ids: &[String]| -> Vec<Value> {
        let of = |id: &String| stamps.iter().find(|(.., it)| it == id).map(|(_, updated, _)| updated.clone());
        ids.iter().filter_map(of).collect()
    };
    assert_eq!(updates(&modified), stamps.iter().map(|(_, updated, _)| updated.clone()).collect::<Vec<_>>());

    let last = modified.last().expect("there are models").clone();
    service.change_model(&last, price(Money::ZERO)).await.expect("the model is there");
    assert_eq!(list(&caller, json!({ "sort": "modified" })).await.first(), Some(&last));
}

#[tokio::test]
async fn likes_and_downloads_put_the_most_first() {
    let (_service, caller) = start_with_fixtures().await;
    let likes = list(&caller, json!({ "sort": "likes" })).await;
    assert_eq!(likes[..4], ["pencil-sketch", "film-grain", "carte-postale", "image-blending"]);
    let downloads = list(&caller, json!({ "sort": "downloads" })).await;
    assert_eq!(downloads[..4], ["pencil-sketch", "carte-postale", "film-grain", "image-blending"]);
}

#[tokio::test]
async fn trending_is_what_is_being_run() {
    let (_service, caller) = start_with_fixtures().await;
    let quiet = list(&caller, json!({ "sort": "trending" })).await;
    assert_eq!(quiet, list(&caller, json!({ "sort": "likes" })).await, "without any runs");
    for _ in 0..2 {
        caller.post(&format!("/api-key/model/{MODEL}/task"), &an_input()).await.data();
    }
    let other = json!({ "input_image": "https://files.example/valley.jpg" });
    caller.post("/api-key/model/haze-removal/task", &other).await.data();
    let busy = list(&caller, json!({ "sort": "trending" })).await;
    assert_eq!(busy[..3], [MODEL, "haze-removal", &*quiet[0]]);
}

#[tokio::test]
async fn filters_choose_by_publisher_by_owner_and_by_access() {
    let (service, stranger) = start_with_fixtures().await;
    service.add_account("member", Scope::Personal).await.expect("the account is new");
    service.add_member("atelier", "member").await.expect("both are there");
    let owner = keyed(&service, &stranger, "atelier").await;
    let member = keyed(&service, &stranger, "member").await;
    let (private, open) =
        (["watermark-draft", "noise-study"], ["pencil-sketch", "film-grain", "carte-postale"]);

    let of = async |caller: &Caller, filter: &str| list(caller, json!({ "filter_by": filter })).await;
    let official = of(&stranger, "official").await;
    assert_eq!(official.len(), kinds::count());
    assert_eq!(of(&stranger, "community").await, open);
    assert_eq!(of(&stranger, "public").await, [&official[..], &open.map(str::to_owned)].concat());
    assert_eq!(of(&stranger, "permission").await, of(&stranger, "public").await);
    assert_eq!(of(&stranger, "author").await, Vec::<String>::new());
    assert_eq!(list(&stranger, json!({})).await, of(&stranger, "public").await);

    let with_private = [&open[..], &private[..]].concat();
    assert_eq!(of(&owner, "author").await, with_private);
    assert_eq!(of(&owner, "community").await, with_private);
    assert_eq!(of(&owner, "public").await, of(&stranger, "public").await);
    assert_eq!(list(&owner, json!({})).await, of(&owner, "permission").await);
    assert!(!of(&owner, "permission").await.contains(&"depth-preview".to_owned()), "another's");

    assert_eq!(of(&member, "author").await, Vec::<String>::new());
    assert_eq!(list(&member, json!({})).await, of(&stranger, "public").await);
    assert_eq!(of(&member, "permission").await, of(&owner, "permission").await);

    let playground = of(&stranger, "playground").await;
    assert_eq!(playground.len(), 13);
    assert!(
        playground.contains(&"film-grain".to_owned()) && !playground.contains(&"carte-postale".to_owned())
    );

    let both = json!({ "filter_by": "community", "search": "DRAFT", "sort": "likes" });
    assert_eq!(list(&owner, both.clone()).await, ["noise-study", "watermark-draft"]);
    assert_eq!(list(&stranger, both).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_private_model_is_unknown_to_other_accounts() {
    let (service, stranger) = start_with_fixtures().await;
    service.add_account("member", Scope::Personal).await.expect("the account is new");
    service.add_member("atelier", "member").await.expect("both are there");
    let owner = keyed(&service, &stranger, "atelier").await;
    let member = keyed(&service, &stranger, "member").await;
    let input = json!({ "input": "https://files.example/night.jpg" });
    for path in ["", "/task/cost", "/serving", "/versioning"] {
        let hidden = stranger.get(&format!("/api-key/model/noise-study{path}")).await;
        let unknown = stranger.get(&format!("/api-key/model/noise-stud{path}")).await;
        assert_eq!(hidden.refusal(404), unknown.refusal(404).replace("noise-stud", "noise-study"));
        for caller in [&owner, &member] {
            caller.get(&format!("/api-key/model/noise-study{path}")).await.data();
        }
    }
    stranger.post("/api-key/model/noise-study/task", &input).await.refusal(404);
    member.post("/api-key/model/noise-study/task", &input).await.data();
    assert_eq!(record(&member, "noise-study").await["visibility"], "private");
}

#[tokio::test]
async fn a_list_carries_headlines_and_a_record_carries_everything() {
    let (_service, caller) = start_with_fixtures().await;
    let page = caller.post(LIST, &json!({ "limit": 100.0 })).await;
    for headline in page.data()["records"].as_array().expect("records") {
        let names: Vec<&String> = headline.as_object().expect("an object").keys().collect();
        let expected =
            ["description", "id", "is_official", "is_verified", "name", "price", "username", "visibility"];
        assert_eq!(names, expected);

        let id = headline["id"].as_str().expect("an identifier");
        let full = record(&caller, id).await;
        for name in expected {
            assert_eq!(full[name], headline[name], "{id} {name}");
        }
        assert_eq!(full.as_object().map(serde_json::Map::len), Some(11), "{id}");
        let metadata = &full["model_metadata"];
        for name in ["id", "model_id", "pretty_name", "task", "license", "library", "language"] {
            assert!(!metadata[name].is_null(), "{id} {name}");
        }
        assert_eq!(metadata["model_id"], id);
        let description = full["description"].as_str().expect("a text");
        assert!(description.len() < 100 && description.ends_with('.'), "{id}: {description}");

        let cost = caller.get(&format!("/api-key/model/{id}/task/cost")).await;
        assert_eq!(cost.data(), &json!({ "cost": headline["price"], "symbol": "$", "unit": "USD" }));
        let serving = caller.get(&format!("/api-key/model/{id}/serving")).await;
        assert_eq!(serving.data(), &json!({ "serving": false, "consumers": 0 }), "nothing runs here");
    }
}

#[tokio::test]
async fn consumers_are_the_accounts_with_tasks_that_have_not_ended() {
    let (service, caller) = start().await;
    service.add_account("other", Scope::Personal).await.expect("the account is new");
    service
        .credit("other", inferstore_service::Credit::Free("1".parse().expect("an amount")))
        .await
        .expect("ok");
    let other = keyed(&service, &caller, "other").await;
    let path = format!("/api-key/model/{MODEL}/task");
    caller.post(&path, &an_input()).await.data();
    caller.post(&path, &an_input()).await.data();
    let task = other.post(&path, &an_input()).await.data()["data"].as_str().expect("a task").to_owned();
    let serving = format!("/api-key/model/{MODEL}/serving");
    assert_eq!(caller.get(&serving).await.data()["consumers"], 2);
    other.delete(&format!("/api-key/task/{task}/cancel")).await;
    assert_eq!(caller.get(&serving).await.data()["consumers"], 1);
}

#[tokio::test]
async fn the_page_about_pictures_lists_the_models_as_the_service_declares_them() {
    const PAGE: &str = include_str!("../../../docs/pictures.md");
    let (_service, caller) = start().await;
    let mut rows = Vec::new();
    for id in list(&caller, json!({})).await {
        let version = caller.get(&format!("/api-key/model/{id}/versioning")).await;
        rows.push(row(&record(&caller, &id).await, version.data()));
    }
    rows.sort();
    let (_, table) =
        PAGE.split_once("| price |\n|---|---|---|---|---|---|\n").expect("the page has the table");
    let (table, _) = table.split_once("\n\n").expect("the table ends");
    assert_eq!(table, rows.join("\n"));
}

#[tokio::test]
async fn the_page_about_pictures_shows_each_model_with_its_time() {
    const PAGE: &str = include_str!("../../../docs/pictures.md");
    const MODELS: &str = include_str!("../../../docs/models.md");
    let (_service, caller) = start().await;
    for id in list(&caller, json!({})).await {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{id}` | ![before](")));
        let row = row.unwrap_or_else(|| panic!("the page shows no picture of {id}"));
        let measured =
            MODELS.lines().find(|line| line.starts_with(&format!("| `{id}`")) && line.contains(" MiB |"));
        let time = measured.and_then(|line| line.split(" | ").nth(1)).expect("the time of the model");
        assert!(row.contains("![after](") && row.ends_with(&format!(" | {time} |")), "{time}: {row}");
    }
}

fn row(model: &Value, version: &Value) -> String {
    let parameters = |format: &str| {
        let parameters = version[format].as_object().expect("a format");
        let mut parameters: Vec<_> = parameters.iter().collect();
        parameters.sort_by_key(|(_, descriptor)| descriptor["position"].as_u64());
        parameters
    };
    let names = |format: &str| {
        let names = parameters(format).into_iter().map(|(name, _)| format!("`{name}`"));
        names.collect::<Vec<_>>().join(", ")
    };
    let text = |name: &str| model[name].as_str().expect("a text");
    let largest =
        parameters("input_format").into_iter().find_map(|(_, descriptor)| descriptor["max_pixels"].as_u64());
    let megapixels = largest.expect("each kind has a limit") / 1_000_000;
    let (id, does, price) = (text("id"), text("description"), &model["price"]);
    format!(
        "| `{id}` | {does} | {} | {} | {megapixels} megapixels | {price} |",
        names("input_format"),
        names("output_format")
    )
}
