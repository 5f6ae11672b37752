//! The Atom feed of the versions of the document.

use pulldown_cmark::{Parser, html};

use super::changelog::Release;
use crate::document::Document;

pub(super) fn feed(releases: &[Release]) -> String {
    let updated = releases.first().map_or("", |release| &release.date);
    let entries: String = releases.iter().map(entry).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n  <id>{}</id>\n  \
         <title>Versions of the Inferstore API</title>\n  <updated>{updated}T00:00:00Z</updated>\n  \
         <author><name>Inferstore</name></author>\n  <link rel=\"self\" href=\"feed.xml\"/>\n  \
         <link rel=\"alternate\" href=\"changelog.html\"/>\n{entries}</feed>\n",
        id("feed")
    )
}

fn entry(Release { version, date, verdict, words, .. }: &Release) -> String {
    let mut content = String::new();
    html::push_html(&mut content, Parser::new(&format!("{verdict}\n\n{words}")));
    let anchor = version.replace('.', "");
    format!(
        "  <entry>\n    <id>{}</id>\n    <title>{version}</title>\n    <updated>{date}T00:00:00Z</updated>\n    \
         <link rel=\"alternate\" href=\"changelog.html#{anchor}\"/>\n    <content type=\"html\">{}</content>\n  </entry>\n",
        id(version),
        content.trim().replace('&', "&amp;").replace('<', "&lt;")
    )
}

/// An identifier that stays the same wherever the feed is published, as a UUID of a name.
fn id(of: &str) -> String {
    let hash = Document::hash(format!("inferstore-api/{of}"));
    let part = |from: usize, to: usize| hash.get(from..to).unwrap_or_default();
    format!("urn:uuid:{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}
