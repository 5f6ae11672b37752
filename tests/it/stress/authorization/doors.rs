//! Listeners that are not for callers of the API: metrics, nodes, controls. Each accepts only its own secret,
//! and shows nothing of any account without it.

use reqwest::Method;
use serde_json::{Value, json};

use super::victim::{Victim, start};
use crate::support::caller::{Caller, Odd};

async fn call(
    caller: &Caller,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, String) {
    let method: Method = method.parse().expect("a method");
    let mut request = caller.http().request(method, url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.body(body.to_string()).send().await.unwrap_or_else(|why| panic!("{url}: {why}"));
    (response.status().as_u16(), response.text().await.expect("an answer is text"))
}

fn names_nothing_of(victims: &[Victim], text: &str, place: &str) {
    let names = victims.iter().flat_map(|victim| victim.owns.names());
    assert_eq!(names.into_iter().find(|name| text.contains(*name)), None, "{place}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_are_nowhere_but_on_their_own_listener_and_name_no_account() {
    let (service, _, victims) = start().await;
    let caller = &victims[0].caller;
    let operations = service.operations_url().expect("they listen").to_owned();
    for path in ["health", "metrics"] {
        let (status, text) = call(caller, "GET", &format!("{operations}/{path}"), &[], &json!({})).await;
        assert_eq!(status, 200);
        // Operators see metrics of each model; here the name of a private model contains its account's name.
        let text = victims.iter().fold(text, |text, victim| text.replace(&victim.owns.model, "a-model"));
        names_nothing_of(&victims, &text, path);
        let root = service.base_url().trim_end_matches("/api/v1");
        for elsewhere in
            [root, service.base_url(), service.storage_url(), service.nodes_url().expect("they listen")]
        {
            let (status, text) = call(caller, "GET", &format!("{elsewhere}/{path}"), &[], &json!({})).await;
            assert!((400..500).contains(&status), "{elsewhere}/{path}: {status} {text}");
            assert!(!text.contains("inferstore_requests"), "{elsewhere}/{path}: {text}");
        }
    }
    for (method, path) in
        [("POST", "metrics"), ("DELETE", "health"), ("GET", "api/v1/api-key/balance"), ("GET", "")]
    {
        let (status, _) = call(caller, method, &format!("{operations}/{path}"), &[], &json!({})).await;
        assert!(matches!(status, 404 | 405), "{method} {path}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reaches_only_what_it_has_leased_itself() {
    let (service, controls, [victim, other]) = start().await;
    let nodes = format!("{}/nodes/v1", service.nodes_url().expect("they listen"));
    let first = service.add_node_key("first").await.expect("a key");
    let second = service.add_node_key("second").await.expect("a key");
    let of = |key: &str| vec![("x-node-key".to_owned(), key.to_owned())];
    let node_call = async |key: &[(String, String)], method: &str, path: &str, body: Value| {
        let headers: Vec<_> = key.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (status, text) = call(&victim.caller, method, &format!("{nodes}/{path}"), &headers, &body).await;
        (status, serde_json::from_str::<Value>(&text).unwrap_or_else(|why| panic!("{path}: {why}: {text}")))
    };
    let register = async |key: &str, model: &str| {
        let (_, answer) = node_call(&of(key), "POST", "register", json!({ "models": [model] })).await;
        answer["data"]["node"].as_str().expect("a node has a name").to_owned()
    };
    let node = register(&first, &victim.owns.model).await;
    let (_, lease) =
        node_call(&of(&first), "POST", &format!("{node}/lease"), json!({"wait_seconds": 5})).await;
    assert_eq!(lease["data"]["task"], victim.owns.queued.as_str());
    let stranger = register(&second, &other.owns.model).await;
    let twin = register(&first, &other.owns.model).await;

    let task = format!("tasks/{}/1", victim.owns.queued);
    let made_up = format!("tasks/{}/1", victim.owns.made_up(&service).queued);
    let secrets = [
        Vec::new(),
        of(""),
        of(&second),
        of(service.api_key().expect("the service is fresh")),
        of(controls.token()),
        vec![("x-api-key".to_owned(), first.clone())],
        vec![("authorization".to_owned(), format!("Bearer {first}"))],
        [of(&first), of(&second)].concat(),
    ];
    for (method, end, body) in [
        ("POST", "heartbeat", json!({})),
        ("PUT", "files/said.txt", json!({})),
        ("PUT", "log", json!({"text": "spoiled"})),
        ("POST", "finish", json!({"output": {"said": "stolen"}})),
        ("POST", "finish", json!({"error": {"message": "spoiled"}})),
    ] {
        for secret in &secrets {
            let (status, reported) =
                node_call(secret, method, &format!("{node}/{task}/{end}"), body.clone()).await;
            let expected = if *secret == of(&second) { 404 } else { 401 };
            assert_eq!(status, expected, "{end}: {reported}");
        }
        // Valid keys and nodes with a foreign task get the same response as with a missing one.
        for (key, node) in [(&second, &stranger), (&first, &twin)] {
            let real = node_call(&of(key), method, &format!("{node}/{task}/{end}"), body.clone()).await;
            let unreal = node_call(&of(key), method, &format!("{node}/{made_up}/{end}"), body.clone()).await;
            assert_eq!(real, unreal, "{end}");
            assert_eq!(real.0, 409, "{end}: {real:?}");
        }
    }
    for path in [format!("{node}/lease"), format!("{node}/goodbye")] {
        let real = node_call(&of(&second), "POST", &path, json!({"wait_seconds": 0})).await;
        assert_eq!(real.0, 404, "{path}: {real:?}");
    }
    let (status, _) = node_call(
        &of(&second),
        "POST",
        &format!("{stranger}/lease"),
        json!({"wait_seconds": 0, "models": [victim.owns.model]}),
    )
    .await;
    assert_eq!(status, 200, "it may ask, and gets nothing that it has not registered");
    let finish = format!("{node}/{task}/finish");
    let done = node_call(&of(&first), "POST", &finish, json!({"output": {"said": "done"}})).await;
    assert_eq!(done.0, 200, "{done:?}");
    super::until(&victim.caller, &victim.owns.queued, "success").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controls_open_to_their_token_alone_and_reveal_nothing() {
    let (service, controls, [victim, _]) = start().await;
    let before = victim.view().await;
    let token = controls.token();
    let shorter = &token[..token.len() - 1];
    let bearer = |secret: &str| vec![("authorization", format!("Bearer {secret}"))];
    let mut wrong = vec![
        Vec::new(),
        bearer(""),
        bearer(shorter),
        bearer(&format!("{token}x")),
        bearer(&token.to_uppercase()),
        bearer(service.api_key().expect("the service is fresh")),
        vec![("authorization", token.to_owned())],
        vec![("authorization", format!("Basic {token}"))],
        vec![("x-api-key", token.to_owned())],
        [bearer(token), bearer("another")].concat(),
    ];
    wrong.push(vec![("cookie", format!("token={token}"))]);
    let doors = [
        ("GET", ""),
        ("POST", "reset"),
        ("POST", "baseline"),
        ("GET", "faults"),
        ("POST", "faults"),
        ("DELETE", "faults"),
        ("DELETE", "faults/1"),
        ("POST", "clock/advance"),
        ("PUT", "accounts/demo/balance"),
        ("POST", "accounts/demo/credit"),
        ("PUT", "node"),
        ("GET", "models"),
        ("PUT", "models/color-extraction"),
        ("DELETE", "models/color-extraction"),
        ("GET", "journal"),
        ("DELETE", "journal"),
        ("GET", "nothing/of/the/kind"),
        ("PATCH", "reset"),
    ];
    let mut reported = std::collections::BTreeSet::new();
    for (method, path) in doors {
        for secret in &wrong {
            let headers: Vec<_> = secret.iter().map(|(name, value)| (*name, value.as_str())).collect();
            for query in ["", &format!("?token={token}&access_token={token}")] {
                let url = format!("{}/{path}{query}", controls.url());
                reported.insert(
                    call(&victim.caller, method, &url, &headers, &json!({"seconds": 1, "up": false})).await,
                );
            }
        }
        let secret = format!("Bearer {token}");
        let headers = vec![("authorization", secret.as_str())];
        let method: Method = method.parse().expect("a method");
        let answer = victim.caller.send(method, &format!("/{path}"), Odd { headers, body: None }).await;
        assert!(matches!(answer.status, 404 | 405), "{path}: {answer:?}");
    }
    assert_eq!(reported.len(), 1, "every caller without the token gets the same response: {reported:?}");
    assert_eq!(reported.first().map(|(status, _)| *status), Some(401));
    assert_eq!(victim.view().await, before);
    let secret = bearer(token);
    let headers: Vec<_> = secret.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (status, _) =
        call(&victim.caller, "GET", &format!("{}/faults", controls.url()), &headers, &json!({})).await;
    assert_eq!(status, 200);
}
