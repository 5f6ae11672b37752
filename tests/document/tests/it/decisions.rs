//! Sign of our decisions: explained once, and placed so that a reader sees the begin and end of a decision.

use inferstore_document::{document, items, members};
use serde_json::Value;

const EXPLANATION: &str = "## Our decision";

fn descriptions(value: &'static Value) -> Vec<&'static str> {
    let own = value["description"].as_str();
    let below = members(value).filter(|(key, _)| !matches!(*key, "example" | "examples"));
    let below = below.map(|(_, member)| member).chain(items(value));
    own.into_iter().chain(below.flat_map(descriptions)).collect()
}

#[test]
fn the_introduction_alone_explains_the_sign() {
    let introduction = document()["info"]["description"].as_str().expect("an introduction");
    let (_, explanation) = introduction.split_once(EXPLANATION).expect("an explanation");
    assert!(explanation.contains("sign †") && explanation.contains("end of the paragraph"), "{explanation}");
    let all = descriptions(document());
    let mentions = all.iter().map(|text| text.to_lowercase().matches("our decision").count());
    assert_eq!(mentions.sum::<usize>(), 1);
}

#[test]
fn a_decision_begins_a_sentence_and_ends_with_its_paragraph() {
    let introduction = document()["info"]["description"].as_str();
    let all = descriptions(document()).into_iter().filter(|text| Some(*text) != introduction);
    let marked: Vec<_> = all.filter(|text| text.contains('†')).collect();
    assert!(marked.len() > 30, "{}", marked.len());
    for text in marked {
        let paragraphs = text.replace("\n- ", "\n\n- ");
        for paragraph in paragraphs.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>()) {
            let signs: Vec<_> =
                (0..paragraph.len()).filter(|index| paragraph[*index].contains('†')).collect();
            assert!(signs.len() <= 1, "one sign covers the rest of the paragraph: {paragraph:?}");
            for sign in signs {
                assert_eq!(paragraph[sign], "†", "{paragraph:?}");
                let before = sign.checked_sub(1).map_or("-", |index| paragraph[index]);
                let begins = before.ends_with(['.', '-', ':']) || before.ends_with(".**");
                let is_sentence =
                    paragraph[sign + 1].starts_with(|char: char| char.is_uppercase() || char == '`');
                assert!(begins && is_sentence, "{paragraph:?}");
            }
        }
    }
}
