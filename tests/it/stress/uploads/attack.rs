//! Attacks on an upload. Each changes a valid upload into one that must be rejected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::upload::{Length, Target, Upload};

pub(super) struct Attacker<'a> {
    pub(super) random: fastrand::Rng,
    pub(super) others: &'a [Target],
}

type Attack = fn(&mut Attacker<'_>, &mut Upload);

const ON_BOTH: [(&str, Attack); 15] = [
    ("a character of what is signed", change_a_character),
    ("something signed left out", drop_a_signed_part),
    ("something signed twice", double_a_signed_part),
    ("something signed twice, the second time changed", double_and_change),
    ("something signed for another target", take_from_another),
    ("another bucket", |it, upload| upload.path = change(&mut it.random, &upload.path)),
    ("a path that climbs", climb_in_the_path),
    ("a longer file", |it, upload| upload.file.extend(vec![1; it.random.usize(1..70_000)])),
    ("a shorter file", shorten_the_file),
    ("a length that promises more", |it, upload| upload.length = Length::Lie(it.random.i64(1..1_000_000))),
    ("a length that promises less", |it, upload| upload.length = Length::Lie(-it.random.i64(20..200))),
    ("chunks in place of a length", |_, upload| upload.length = Length::Chunked),
    ("no length", |_, upload| upload.length = Length::Missing),
    ("a key or another signature beside it", add_a_credential),
    ("cut", |it, upload| upload.cut = Some(it.random.usize(..upload.bytes().len() - 4))),
];

const ON_FORMS: [(&str, Attack); 5] = [
    ("a field that is not signed", add_a_field),
    ("a looser policy", loosen_the_policy),
    ("a field after the file", |it, upload| {
        let Some(form) = &mut upload.form else { return };
        let moved = form.fields.remove(it.random.usize(..form.fields.len()));
        form.after.push(moved);
    }),
    ("a second file", |_, upload| {
        let Some(form) = &mut upload.form else { return };
        form.after.push(("file".to_owned(), "another".to_owned()));
    }),
    ("put in place of post", |_, upload| upload.method = "PUT"),
];

const ON_PUTS: [(&str, Attack); 4] = [
    ("another type", |it, upload| change_header(&mut it.random, upload)),
    ("a header of S3 that is not signed", add_an_s3_header),
    ("a parameter that is not signed", |it, upload| {
        let names = ["acl", "tagging", "versionId", "uploadId", "partNumber", "x-amz-acl", "x-id"];
        upload.query.push(((*pick(&mut it.random, &names)).to_owned(), "1".to_owned()));
    }),
    ("post in place of put", |_, upload| upload.method = "POST"),
];

impl Attacker<'_> {
    pub(super) fn attack(&mut self, good: &Upload) -> (Upload, String) {
        let special: &[_] = if good.is_form() { &ON_FORMS } else { &ON_PUTS };
        let attacks: Vec<_> = ON_BOTH.iter().chain(special).collect();
        loop {
            let (mut upload, mut what) = (good.clone(), Vec::new());
            for _ in 0..self.random.usize(1..=3) {
                let (name, attack) = attacks[self.random.usize(..attacks.len())];
                attack(self, &mut upload);
                what.push(*name);
            }
            // Two attacks may cancel each other, up to the order of signed parts, which does not matter.
            let mut sorted = [good.clone(), upload.clone()];
            for it in &mut sorted {
                it.signed().sort();
            }
            if sorted[0] != sorted[1] {
                return (upload, what.join(", then "));
            }
        }
    }
}

fn pick<'a, T>(random: &mut fastrand::Rng, choices: &'a [T]) -> &'a T {
    &choices[random.usize(..choices.len())]
}

fn change(random: &mut fastrand::Rng, text: &str) -> String {
    let places: Vec<_> = text
        .char_indices()
        // An escape sequence has two equivalent spellings.
        .filter(|(at, letter)| {
            letter.is_ascii_alphanumeric() && !text[..*at].chars().rev().take(2).any(|before| before == '%')
        })
        .collect();
    let Some((at, old)) = places.get(random.usize(..places.len().max(1))).copied() else {
        return format!("{text}x");
    };
    // Not the same letter in another case: names of hosts and headers are case-insensitive.
    let new = std::iter::repeat_with(|| random.alphanumeric()).find(|new| !new.eq_ignore_ascii_case(&old));
    format!("{}{}{}", &text[..at], new.unwrap_or('x'), &text[at + 1..])
}

fn change_a_character(it: &mut Attacker<'_>, upload: &mut Upload) {
    let signed = upload.signed();
    let place = it.random.usize(..signed.len().max(1));
    if let Some((_, value)) = signed.get_mut(place) {
        *value = change(&mut it.random, value);
    }
}

fn drop_a_signed_part(it: &mut Attacker<'_>, upload: &mut Upload) {
    let signed = upload.signed();
    if !signed.is_empty() {
        signed.remove(it.random.usize(..signed.len()));
    }
}

fn double_a_signed_part(it: &mut Attacker<'_>, upload: &mut Upload) {
    let signed = upload.signed();
    if !signed.is_empty() {
        let again = pick(&mut it.random, signed).clone();
        signed.insert(it.random.usize(..=signed.len()), again);
    }
}

fn double_and_change(it: &mut Attacker<'_>, upload: &mut Upload) {
    let signed = upload.signed();
    if !signed.is_empty() {
        let (name, value) = pick(&mut it.random, signed).clone();
        let value = change(&mut it.random, &value);
        signed.insert(it.random.usize(..=signed.len()), (name, value));
    }
}

fn take_from_another(it: &mut Attacker<'_>, upload: &mut Upload) {
    let mut other = pick(&mut it.random, it.others).upload(Vec::new());
    if !upload.is_form() && it.random.bool() {
        upload.path = other.path;
        return;
    }
    let theirs = other.signed();
    let signed = upload.signed();
    let differing: Vec<_> = signed
        .iter_mut()
        .filter_map(|(name, value)| {
            let (_, their) = theirs.iter().find(|(their, _)| their == name)?;
            (their != value).then_some((value, their))
        })
        .collect();
    let count = differing.len();
    if let Some((value, their)) = differing.into_iter().nth(it.random.usize(..count.max(1))) {
        their.clone_into(value);
    }
}

const CLIMBS: [&str; 10] =
    ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..\\", "%00", "./", "//", "%c0%ae%c0%ae%c0%af"];

fn climb_in_the_path(it: &mut Attacker<'_>, upload: &mut Upload) {
    let climb = pick(&mut it.random, &CLIMBS).repeat(it.random.usize(1..4));
    if let Some(form) = &mut upload.form
        && let Some((_, key)) = form.fields.iter_mut().find(|(name, _)| name == "key")
    {
        let at = key.find('/').map_or(0, |slash| slash + 1);
        key.insert_str(at, &climb);
    } else {
        let at = upload.path.rfind('/').map_or(0, |slash| slash + 1);
        upload.path.insert_str(at, &climb);
    }
}

fn shorten_the_file(it: &mut Attacker<'_>, upload: &mut Upload) {
    let length = upload.file.len();
    upload.file.truncate(it.random.usize(..length.max(1)));
}

fn add_a_credential(it: &mut Attacker<'_>, upload: &mut Upload) {
    let credentials = [
        ("x-api-key", "isk_stranger_key"),
        ("X-API-KEY", ""),
        ("authorization", "Bearer isk_stranger_key"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=inferstore/20200101/us-east-1/s3/aws4_request"),
    ];
    let (name, value) = *pick(&mut it.random, &credentials);
    upload.headers.push((name.to_owned(), value.to_owned()));
}

fn add_a_field(it: &mut Attacker<'_>, upload: &mut Upload) {
    let fields = [
        ("acl", "public-read"),
        ("x-amz-acl", "public-read"),
        ("success_action_redirect", "http://attacker.example/"),
        ("success_action_status", "200"),
        ("x-amz-meta-owner", "somebody"),
        ("x-amz-security-token", "token"),
        ("tagging", "<Tagging/>"),
        ("Content-Encoding", "gzip"),
        ("bucket", "files-of-another"),
        ("", ""),
    ];
    let (name, value) = *pick(&mut it.random, &fields);
    let signed = upload.signed();
    signed.insert(it.random.usize(..=signed.len()), (name.to_owned(), value.to_owned()));
}

fn loosen_the_policy(it: &mut Attacker<'_>, upload: &mut Upload) {
    let Some((_, policy)) = upload.signed().iter_mut().find(|(name, _)| name == "policy") else { return };
    let Ok(text) = STANDARD.decode(&*policy) else { return };
    let Ok(mut document) = serde_json::from_slice::<Value>(&text) else { return };
    match it.random.usize(..4) {
        0 => document["expiration"] = "2999-01-01T00:00:00.000Z".into(),
        1 => {
            let conditions = document["conditions"].as_array_mut().into_iter().flatten();
            for condition in conditions.filter(|it| it[0] == "content-length-range") {
                *condition = json!(["content-length-range", 0, 104_857_600]);
            }
        }
        2 => {
            let conditions = document["conditions"].as_array_mut().into_iter().flatten();
            for condition in conditions.filter(|it| it[0] == "eq") {
                *condition = json!(["starts-with", condition[1], ""]);
            }
        }
        _ => document["conditions"] = json!([]),
    }
    *policy = STANDARD.encode(document.to_string());
}

fn change_header(random: &mut fastrand::Rng, upload: &mut Upload) {
    for (_, value) in &mut upload.headers {
        *value = change(random, value);
    }
}

fn add_an_s3_header(it: &mut Attacker<'_>, upload: &mut Upload) {
    let headers = [
        ("x-amz-acl", "public-read"),
        ("x-amz-copy-source", "files/other"),
        ("x-amz-meta-target", "another"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("x-amz-server-side-encryption", "AES256"),
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("if-none-match", "*"),
    ];
    let (name, value) = *pick(&mut it.random, &headers);
    upload.headers.push((name.to_owned(), value.to_owned()));
}
