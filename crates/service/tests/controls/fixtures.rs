//! Accounts, models and files from a folder.

use inferstore_service::Script;
use reqwest::Method;
use serde_json::json;

use crate::support::{Bench, Outcome};

fn folder() -> Outcome<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text);
    std::fs::create_dir_all(folder.path().join("models/studio"))?;
    let accounts = json!([
        {"username": "alice", "keys": ["isk_alice_secretsecret"], "balance": "12.5", "free_balance": "0"},
        {"username": "studio", "is_organization": true, "members": ["alice"], "keys": ["the-key-of-the-studio"]},
    ]);
    write("accounts.json", accounts.to_string())?;
    let model = json!({
        "id": "shout", "name": "shout", "description": "Says it louder.", "price": "0.25", "visibility": "private",
        "metadata": {
            "pretty_name": "Shout", "task": "text", "license": "MIT", "library": [], "language": ["en"],
        },
        "input_format": {"text": {"type": "string", "required": true, "position": 0, "samples": ["hello"]}},
        "output_format": {"text": {"type": "string", "position": 0}},
    });
    write("models/studio/shout.json", model.to_string())?;
    let files = json!([
        {"account": "alice", "folder": "samples", "name": "a.txt", "mime": "text/plain", "path": "a.txt"},
    ]);
    write("files.json", files.to_string())?;
    write("a.txt", "of alice".to_owned())?;
    Ok(folder)
}

#[tokio::test]
async fn what_a_folder_describes_is_there_and_survives_a_reset() -> Outcome {
    let mut bench = Bench::start().await?;
    let folder = folder()?;
    let seeded = bench.controls.load_fixtures(folder.path()).await?;
    assert_eq!((seeded.accounts, seeded.models, seeded.files), (2, 1, 1));
    bench.key = "isk_alice_secretsecret".to_owned();
    for _ in 0..2 {
        assert_eq!(bench.balance().await?["balance"], "12.5");
        let listed = bench.get("/api-key/storage/upload/samples").await?;
        let url = listed["files"][0]["download_url"].as_str().unwrap_or_default().to_owned();
        assert_eq!(bench.read(&url).await?, (200, "of alice".to_owned()));
        assert_eq!(bench.get("/api-key/model/shout").await?["username"], "studio");

        bench.controls.let_model("shout", Script::succeed(json!({"text": "HELLO"}))).await?;
        let path = "/api-key/model/shout/task";
        let (status, response) = bench.call(Method::POST, path, Some(json!({"text": "hello"}))).await?;
        assert_eq!(status, 200, "{response}");
        bench.until(response["data"]["data"].as_str().unwrap_or_default(), &["success"]).await?;
        assert_eq!(bench.balance().await?["balance"], "12.25");
        bench.audit().await?;
        bench.controls.reset().await?;
    }
    // A second time brings up to date and adds nothing twice.
    bench.controls.load_fixtures(folder.path()).await?;
    assert_eq!(bench.get("/api-key/storage/upload/statistics").await?["total_files"], 1);
    bench.audit().await
}

#[tokio::test]
async fn an_invalid_fixture_is_refused_with_the_name_of_its_file() -> Outcome {
    let bench = Bench::start().await?;
    assert!(bench.controls.load_fixtures("/nowhere at all").await.is_err());
    for (name, text) in [
        ("accounts.json", r#"[{"username": "a", "ballance": "1"}]"#),
        ("models/studio/shout.json", r#"{"id": "shout"}"#),
        (
            "files.json",
            r#"[{"account": "stranger", "folder": "samples", "name": "a", "mime": "a/b", "path": "a"}]"#,
        ),
    ] {
        let folder = folder()?;
        std::fs::write(folder.path().join(name), text)?;
        let refusal = bench.controls.load_fixtures(folder.path()).await.err().map(|error| error.to_string());
        let word = if name == "files.json" { "stranger" } else { name };
        assert!(refusal.as_ref().is_some_and(|message| message.contains(word)), "{name}: {refusal:?}");
    }
    Ok(())
}
