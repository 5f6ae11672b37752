//! Authorization: nothing of an account exists for anybody else, for every operation and every sort of
//! stranger.

mod doors;
mod probe;
mod victim;

use std::collections::BTreeMap;

use inferstore_document::operations;
use inferstore_service::{Scope, Service};
use probe::{Probe, probes};
use serde_json::json;
use victim::{Belongings, MODEL, Victim, key_of, start, until};

use super::tell;
use super::uploads::Target;
use crate::support::caller::{Answer, Caller};

struct Stranger {
    who: &'static str,
    caller: Caller,
    headers: Vec<(&'static str, String)>,
    query: String,
    is_known: bool,
}

impl Stranger {
    fn unknown(who: &'static str, caller: Caller) -> Self {
        Self { who, caller, headers: Vec::new(), query: String::new(), is_known: false }
    }

    fn known(who: &'static str, caller: Caller) -> Self {
        Self { is_known: true, ..Self::unknown(who, caller) }
    }

    async fn ask(&self, probe: &Probe) -> Answer {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        probe.send(&self.caller, &headers, &self.query).await
    }
}

async fn anonymous(service: &Service, token: &str, caller: &Caller, key: &str) -> Vec<Stranger> {
    service.add_account("gone", Scope::Personal).await.expect("the name is free");
    let revoked = service.add_key("gone").await.expect("a key");
    assert!(service.revoke_key(&revoked).await.expect("it is revoked"));
    let node_key = service.add_node_key("beside").await.expect("the name is free");
    let unknown = format!("{}{}", &key[..key.len() - 1], if key.ends_with('a') { 'b' } else { 'a' });
    let with = |who, key: &str| Stranger::unknown(who, caller.with_key(Some(key)));
    let without = Stranger::unknown("no key", caller.with_key(None));
    let headers = |who, headers: &[(&'static str, String)]| Stranger {
        headers: headers.to_vec(),
        ..Stranger::unknown(who, caller.with_key(None))
    };
    vec![
        with("an empty key", ""),
        with("a malformed key", "isk_"),
        with("an unknown key", &unknown),
        with("a revoked key", &revoked),
        with("the key of a node", &node_key),
        with("the token of the controls", token),
        headers("a key as a bearer", &[("authorization", format!("Bearer {key}"))]),
        headers("a key as a cookie", &[("cookie", format!("x-api-key={key}"))]),
        headers("a key for nodes", &[("x-node-key", key.to_owned())]),
        headers("a key under a name that is not quite it", &[("x_api_key", key.to_owned())]),
        headers("two keys", &[("x-api-key", key.to_owned()), ("x-api-key", unknown.clone())]),
        Stranger { query: format!("x-api-key={key}&api_key={key}"), ..without },
    ]
}

/// Returns callers with accounts of their own. The last one was a member of `acme`.
async fn others(service: &Service, caller: &Caller) -> Vec<Stranger> {
    for (name, scope) in [
        ("person", Scope::Personal),
        ("firm", Scope::Organization),
        ("employee", Scope::Personal),
        ("former", Scope::Personal),
    ] {
        service.add_account(name, scope).await.expect("the name is free");
    }
    service.add_member("firm", "employee").await.expect("both are there");
    service.add_member("acme", "former").await.expect("both are there");
    let former = key_of(service, caller, "former").await;
    former.get("/api-key/model/private-to-acme").await.data();
    assert!(service.remove_member("acme", "former").await.expect("it was a member"));
    vec![
        Stranger::known("another person", key_of(service, caller, "person").await),
        Stranger::known("an organization", key_of(service, caller, "firm").await),
        Stranger::known("a member of another organization", key_of(service, caller, "employee").await),
        Stranger::known("a former member", former),
    ]
}

fn nameless(answer: &Answer, owns: &Belongings) -> String {
    let mut text = format!("{} {}", answer.status, answer.body);
    for name in owns.names() {
        // Messages show only the beginning of a long name.
        let shown: String = name.chars().take(80).collect();
        text = text.replace(&shown, "…");
        text = text.replace(name.rsplit('/').nth(2).unwrap_or(name), "…");
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_one_account_do_not_exist_for_strangers() {
    let (service, controls, victims) = start().await;
    let key = service.api_key().expect("the service is fresh").to_owned();
    let before = [victims[0].view().await, victims[1].view().await];
    let mut strangers = anonymous(&service, controls.token(), &victims[0].caller, &key).await;
    strangers.extend(others(&service, &victims[0].caller).await);
    let mut asked = 0;
    for (number, victim) in victims.iter().enumerate() {
        let nothing = victim.owns.made_up(&service);
        let other = Stranger::known("the other one", victims[1 - number].caller.clone());
        for stranger in strangers.iter().chain([&other]) {
            for operation in operations() {
                asked += pry(
                    stranger,
                    &probes(operation, &victim.owns),
                    &probes(operation, &nothing),
                    victim,
                    &nothing,
                )
                .await;
            }
        }
    }
    let after = [victims[0].view().await, victims[1].view().await];
    assert_eq!(after, before, "a stranger has changed something");
    for victim in &victims {
        owner_can(victim).await;
    }
    tell(&format!(
        "{asked} requests of {} sorts of strangers, who saw and changed nothing",
        strangers.len() + 1
    ));
}

async fn pry(
    stranger: &Stranger,
    real: &[Probe],
    made_up: &[Probe],
    victim: &Victim,
    nothing: &Belongings,
) -> usize {
    for (real, made_up) in real.iter().zip(made_up) {
        let (reported, control) = (stranger.ask(real).await, stranger.ask(made_up).await);
        let place = format!("{}: {real:?}", stranger.who);
        if real.operation == "createPresignedUpload" && reported.status == 200 {
            // The key of an organization uploads into its own storage, whatever name is sent.
            let bucket = |url: &str| url.split('/').nth(3).unwrap_or_default().to_owned();
            let [target, other] = [&reported, &control].map(|it| Target::read(it.data()));
            assert_eq!(bucket(&target.download_url), bucket(&other.download_url), "{place}");
            assert_ne!(bucket(&target.download_url), bucket(&victim.owns.file), "{place}");
            continue;
        }
        assert_eq!(nameless(&reported, &victim.owns), nameless(&control, nothing), "{place}");
        if !stranger.is_known {
            assert_eq!(reported.status, 401, "{place}: {reported:?}");
        } else if real.is_for_the_owner() {
            assert!(matches!(reported.status, 403 | 404), "{place}: {reported:?}");
        } else {
            let text = reported.body.to_string();
            let seen = victim.owns.names().into_iter().find(|name| text.contains(&format!("\"{name}\"")));
            assert_eq!(seen, None, "{place}: {text}");
        }
    }
    2 * real.len()
}

async fn owner_can(victim: &Victim) {
    let mut statuses: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for operation in operations() {
        for probe in probes(operation, &victim.owns) {
            let answer = probe.send(&victim.caller, &[], "").await;
            statuses.entry(probe.operation).or_default().push(answer.status);
        }
    }
    for (operation, statuses) in statuses {
        let expected: &[u16] = match operation {
            "cancelTask" => &[200, 409, 409],
            "createKey" => &[422],
            // A person is no organization.
            "createPresignedUpload" if victim.owns.username == "demo" => &[403],
            _ => &[200],
        };
        let fits = expected == statuses || expected == [200] && statuses.iter().all(|status| *status == 200);
        assert!(fits, "{operation}: {statuses:?}");
    }
}

async fn run_on(caller: &Caller, url: &str) -> (String, String) {
    let created = caller.post(&format!("/api-key/model/{MODEL}/task"), &json!({ "input": url })).await;
    if created.status != 200 {
        return ("refused".to_owned(), created.body.to_string());
    }
    let task = created.data()["data"].as_str().expect("an identifier").to_owned();
    let ended = async {
        loop {
            let answer = caller.get(&format!("/api-key/task/{task}/detail")).await;
            let data = answer.data();
            let status = data["status"].as_str().unwrap_or_default().to_owned();
            if !matches!(&*status, "in_queue" | "computing") {
                return (status, format!("{} {}", data["message"], data["result"]));
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::raw::BACKSTOP, ended).await.expect("the task ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_a_file_of_another_account_by_url_until_its_deletion() {
    let (service, _, [victim, _]) = start().await;
    service.add_account("reader", Scope::Personal).await.expect("the name is free");
    let reader = key_of(&service, &victim.caller, "reader").await;
    let url = victim.owns.file.as_str();
    let (root, blob) = (service.storage_url(), service.data_folder().join("inferstore.db"));
    let bucket = url.rsplit_once("/documents").map(|(bucket, _)| bucket).unwrap_or_default();
    // By the description, knowing the URL of a file is enough to use it.
    assert_eq!(run_on(&reader, url).await.0, "success");
    assert_eq!(run_on(&reader, &url.replace("plans", "%70lans")).await.0, "success");
    for around in [
        format!("{bucket}/documents/../documents/private%20plans.bmp"),
        format!("{bucket}/documents/"),
        format!("{bucket}/"),
        format!("{bucket}?list-type=2"),
        format!("{root}/outputs/{}/1/output.bmp", victim.owns.ended),
        format!("{root}/../inferstore.db"),
        format!("{root}/%2e%2e/%2e%2e/inferstore.db"),
        format!("file://{}", blob.display()),
        blob.display().to_string(),
        format!("{}/api-key/balance", service.base_url()),
        service.operations_url().map(|url| format!("{url}/metrics")).unwrap_or_default(),
        root.replace("127.0.0.1", "localhost"),
        format!("{}@{}", root, url.trim_start_matches("http://")),
    ] {
        let (status, reported) = run_on(&reader, &around).await;
        assert!(matches!(&*status, "refused" | "failed"), "{around}: {status} {reported}");
        assert!(!reported.contains(&victim.owns.queued), "{around}: {reported}");
    }
    let never = url.replace("private", "invented");
    let body = json!({ "url": url });
    let delete = crate::support::caller::Odd {
        headers: vec![("content-type", "application/json")],
        body: Some(body.to_string().into_bytes()),
    };
    victim.caller.send(reqwest::Method::DELETE, "/api-key/storage/store/url", delete).await.data();
    let (gone, unknown) = (run_on(&reader, url).await, run_on(&reader, &never).await);
    assert_eq!(gone.0, "failed");
    assert_eq!(gone, unknown, "a deleted file and one that never was get the same response");
    until(&victim.caller, &victim.owns.computing, "computing").await;
}
