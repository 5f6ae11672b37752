//! Reports of changes as a page that needs nothing else.

use super::{Changes, verdict_in_words};
use crate::report::{breaks, groups};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    li{margin:.5rem 0}code{font-size:.9em;overflow-wrap:anywhere}b{padding:0 .4em;border-radius:.3em}\
    .breaking{background:#fdd;color:#900}.compatible{background:#dfd;color:#060}.docs{background:#eee;color:#333}";

/// Returns a page for people. `title` names what was compared.
pub fn html(changes: &Changes, title: &str) -> String {
    let title = escaped(title);
    let verdict = verdict_in_words(changes.verdict());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<p>{verdict}</p>\n"
    );
    for group in groups(changes) {
        page.push_str(&format!("<h2>{}</h2>\n<ul>\n", escaped(&group.heading)));
        for change in group.changes {
            let severity = change.severity.word();
            let class = severity.split(' ').next().unwrap_or_default();
            let (pointer, message) = (escaped(&change.pointer.to_string()), escaped(&change.message));
            let clients =
                if change.breaks.is_empty() { String::new() } else { format!(" ({})", breaks(change)) };
            page.push_str(&format!(
                "<li><b class=\"{class}\">{severity}</b> {message}{clients}<br><code>{pointer}</code></li>\n"
            ));
        }
        page.push_str("</ul>\n");
    }
    page + "</html>\n"
}

/// Escapes a text for HTML, also within quotes: texts of documents are foreign.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
