//! Service whose object store is attacked, and checks for leftovers of an upload.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inferstore_service::{Config, Controls, Money, Scope, Service};
use inferstore_wire::until;
use serde_json::{Value, json};

use super::upload::Target;
use crate::support::caller::{Answer, Caller};

pub(super) const MAX_FORM_FILE: u64 = 5_242_880;

pub(super) struct Bench {
    pub(super) service: Service,
    pub(super) controls: Controls,
    pub(super) owner: Caller,
    stranger: Caller,
}

impl Bench {
    pub(super) async fn start() -> Self {
        let mut config = Config::ephemeral().with_controls();
        config.workers = 0;
        // Expensive, so that a single stored byte shows in the balance.
        config.storage_price_per_gib_day = Some(Money::from_smallest(1 << 34));
        let service = Service::start(config).await.expect("the service starts");
        service.add_account("stranger", Scope::Personal).await.expect("the name is free");
        let key = service.add_key("stranger").await.expect("a key");
        let controls = service.controls().expect("they are on");
        controls
            .credit("stranger", inferstore_service::Credit::Paid(Money::from_smallest(1)))
            .await
            .expect("money");
        let owner = Caller::first(&service);
        let stranger = owner.with_key(Some(&key));
        Self { service, controls, owner, stranger }
    }

    pub(super) async fn ask(&self, order: &Value) -> Answer {
        self.owner.post("/api-key/storage/upload/create-presigned-url", order).await
    }

    pub(super) async fn target(&self, order: &Value) -> Target {
        Target::read(self.ask(order).await.data())
    }

    pub(super) async fn others(&self, order: &Value) -> Vec<Target> {
        let mut others = Vec::new();
        for (member, value) in [
            ("name", json!("another.bin")),
            ("folder", json!("avatars")),
            ("mime", json!("application/x-another")),
            ("size", json!(order["size"].as_u64().map(|size| size + 1))),
        ] {
            let mut other = order.clone();
            other[member] = value;
            others.push(self.target(&other).await);
        }
        let path = "/api-key/storage/upload/create-presigned-url";
        others.push(Target::read(self.stranger.post(path, order).await.data()));
        others
    }

    pub(super) async fn download(&self, url: &str) -> Option<Vec<u8>> {
        let response = self.owner.http().get(url).send().await.expect("the object store answers");
        match response.status().as_u16() {
            200 => Some(response.bytes().await.expect("a file arrives whole").to_vec()),
            404 => None,
            other => panic!("a download answered {other}"),
        }
    }

    pub(super) async fn holds(&self, file: Option<(&str, &[u8])>, after: &str) {
        // A partial upload is removed once the service knows that nothing follows.
        let is_settled = || async { self.on_disk("objects/incoming").is_empty() };
        until(&format!("nothing is on its way: {after}"), is_settled).await;
        let size = file.map_or(0, |(_, content)| content.len());
        let counted = self.owner.get("/api-key/storage/upload/statistics").await;
        let expected = json!({"total_files": usize::from(file.is_some()), "total_size": size});
        assert_eq!(counted.data(), &expected, "after {after}");
        let counted = self.stranger.get("/api-key/storage/upload/statistics").await;
        assert_eq!(counted.data()["total_files"], 0, "after {after}");
        let mut listed = BTreeSet::new();
        for folder in ["avatars", "thumbnails", "covers", "samples", "documents"] {
            let page = self.owner.get(&format!("/api-key/storage/upload/{folder}?pageSize=100")).await;
            for record in page.data()["files"].as_array().into_iter().flatten() {
                listed.insert(record["download_url"].as_str().unwrap_or_default().to_owned());
            }
        }
        assert_eq!(listed, file.iter().map(|(url, _)| (*url).to_owned()).collect(), "after {after}");
        let blobs = self.on_disk("objects/blobs");
        assert_eq!(blobs.len(), usize::from(file.is_some()), "after {after}: {blobs:?}");
        if let Some((url, content)) = file {
            assert!(self.download(url).await.as_deref() == Some(content), "after {after}: other bytes");
        }
    }

    pub(super) fn on_disk(&self, part: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.service.data_folder().join(part), &mut found);
        found
    }

    pub(super) async fn delete(&self, url: &str) {
        let headers = vec![("content-type", "application/json")];
        let body = Some(json!({ "url": url }).to_string().into_bytes());
        let odd = crate::support::caller::Odd { headers, body };
        self.owner.send(reqwest::Method::DELETE, "/api-key/storage/store/url", odd).await.data();
    }

    pub(super) async fn balance_after(&self, span: Duration) -> Value {
        self.controls.advance_clock(span).await.expect("storage is billed");
        self.owner.get("/api-key/balance").await.data().clone()
    }
}

/// Blobs may be unlinked during the walk.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}
