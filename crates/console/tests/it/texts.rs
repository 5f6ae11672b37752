//! Words of each page, as a person reads them from top to bottom.

use inferstore_service::Config;

use crate::support::{FormBody, Site, picture};

fn words(page: &str) -> String {
    let mut words = String::new();
    let mut rest = page.split_once("<main").map_or(page, |(_, main)| main);
    rest = rest.split_once("</main>").map_or(rest, |(main, _)| main);
    rest = rest.split_once('>').map_or(rest, |(_, content)| content);
    while let Some((text, after)) = rest.split_once('<') {
        words.push_str(text);
        let (tag, after) = after.split_once('>').unwrap_or((after, ""));
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap_or_default();
        if !matches!(name, "a" | "b" | "code" | "em" | "i" | "small" | "span" | "strong" | "time") {
            words.push('\n');
        }
        for attribute in ["alt", "placeholder", "aria-label"] {
            let value =
                tag.split_once(&format!(" {attribute}=\"")).and_then(|(_, value)| value.split_once('"'));
            if let Some((value, _)) = value.filter(|(value, _)| !value.is_empty()) {
                words.push_str(&format!("[{attribute}: {value}]\n"));
            }
        }
        rest = match name {
            "script" | "style" | "svg" => {
                after.split_once(&format!("</{name}>")).map_or("", |(_, rest)| rest)
            }
            _ => after,
        };
    }
    let lines = words.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_words_of_each_page() {
    let mut config = Config::ephemeral().with_controls();
    config.seed = Some(7);
    let site = Site::start_with(config).await;
    let visitor = site.open().await;
    let form = || FormBody::new().file("in.input", "photo.png", &picture());
    let run = visitor.run("color-extraction", form()).await;
    let result = visitor.result(&run).await;
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(true);
    for (pattern, word) in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "TASK"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?", "TIME"),
        (r"\d{4}-\d\d-\d\d", "DAY"),
        (r"127\.0\.0\.1:\d+", "HOST"),
        (r"(&lt; )?[0-9.]+ (ms|s|seconds?)\b", "DURATION"),
        // Two calls run side by side, and either fails first.
        (r"getModel(Versioning)? failed", "CALL failed"),
    ] {
        settings.add_filter(pattern, word);
    }
    let _settings = settings.bind_to_scope();
    insta::assert_snapshot!("result", words(&result.body));
    for (name, path) in [
        ("catalog", "/"),
        ("form", "/models/color-harmonization"),
        ("runs", "/runs"),
        ("files", "/files/samples"),
        ("account", "/account"),
        ("missing", "/models/no-such-model"),
    ] {
        insta::assert_snapshot!(name, words(&visitor.get(path).await.body));
    }
}
