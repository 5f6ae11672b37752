//! Hides what grants access to object storage in what a store says about a refusal.

use reqwest::Url;

/// What is shown instead.
const HIDDEN: &str = "…";

/// Fields whose values may be read by anyone.
const OPEN_FIELDS: [&str; 4] = ["key", "bucket", "content-type", "success_action_status"];

/// Shorter values are no secrets, and hiding them would make a message unreadable.
const SHORTEST_SECRET: usize = 8;

/// What must not be shown, longest first, so that no part of one is left over.
pub(crate) struct Mask(Vec<String>);

impl Mask {
    /// Of the query of a URL, and of the fields of a form.
    pub(crate) fn of(url: &Url, fields: &[(String, String)]) -> Self {
        let encoded = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let encoded = encoded.map(|(_, value)| value.to_owned());
        let decoded = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
        let closed =
            fields.iter().filter(|(name, _)| !OPEN_FIELDS.contains(&name.to_ascii_lowercase().as_str()));
        let named = decoded.chain(closed.cloned()).flat_map(|(name, value)| {
            // A credential is an account and a scope; the account is quoted alone too.
            let is_credential = name.to_ascii_lowercase().ends_with("credential");
            let account = is_credential.then(|| value.split('/').next().unwrap_or_default().to_owned());
            std::iter::once(value).chain(account)
        });
        let mut secrets: Vec<String> =
            encoded.chain(named).filter(|value| value.len() >= SHORTEST_SECRET).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    pub(crate) fn over(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(url: &str, fields: &[(&str, &str)]) -> Mask {
        let fields: Vec<_> =
            fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Url::parse(url).map_or_else(|_| Mask(Vec::new()), |url| Mask::of(&url, &fields))
    }

    #[test]
    fn whatever_grants_access_is_hidden() {
        let signed =
            mask("https://b.example/k?X-Amz-Credential=ACCOUNT-1%2Fscope&X-Amz-Signature=SIGNATURE", &[]);
        assert_eq!(signed.over("SIGNATURE of ACCOUNT-1 for ACCOUNT-1/scope"), "… of … for …");
        let form = mask(
            "https://b.example/",
            &[("key", "samples/a.png"), ("policy", "POLICY=="), ("acl", "private")],
        );
        assert_eq!(form.over("POLICY== forbids private samples/a.png"), "… forbids private samples/a.png");
    }
}
