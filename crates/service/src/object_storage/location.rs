//! Download URLs: `<address>/<bucket>/<token>/<key>`. The token, a keyed hash of bucket and key, is the same for every
//! upload of a name and says nothing about others. Objects of an earlier version also have `<address>/<bucket>/<key>`.

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use url::Url;

use crate::hex::hex;
use crate::{Error, Result};

/// Characters that are not escaped in a path, as in S3 signatures.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

const TOKEN_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) bucket: String,
    pub(crate) token: String,
    pub(crate) key: String,
}

impl Location {
    pub(crate) fn path(&self) -> String {
        let Self { bucket, token, key } = self;
        let escape = |part| utf8_percent_encode(part, ESCAPED);
        format!("/{}/{}/{}", escape(bucket), escape(token), escape(key))
    }
}

pub(crate) struct Locations {
    /// Addresses, current one first; empty if no process has had an address yet.
    addresses: Vec<String>,
    hash: Hmac<Sha256>,
}

impl Locations {
    pub(crate) fn new(addresses: Vec<String>, secret: &str) -> Result<Self> {
        let hash = Hmac::new_from_slice(secret.as_bytes());
        let hash = hash.map_err(|cause| Error::new("preparing download URLs", cause))?;
        Ok(Self { addresses, hash })
    }

    pub(crate) fn address(&self) -> &str {
        self.addresses.first().map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn have_moved(&self) -> bool {
        self.addresses.len() > 1
    }

    pub(crate) fn url(&self, bucket: &str, key: &str) -> String {
        format!("{}{}", self.address(), self.path(bucket, key))
    }

    pub(crate) fn parsed_url(&self, path: &str) -> Result<Url> {
        let url = format!("{}{path}", self.address());
        Url::parse(&url).map_err(|cause| Error::new("signing an upload target", cause))
    }

    pub(crate) fn path(&self, bucket: &str, key: &str) -> String {
        let token = self.token(bucket, key);
        Location { bucket: bucket.to_owned(), token, key: key.to_owned() }.path()
    }

    /// Rewrites a URL of this object store to the current address, by the longest match; None for other URLs.
    pub(crate) fn current_url(&self, url: &str) -> Option<String> {
        let path = self.paths(url).min_by_key(|path| path.len())?;
        Some(format!("{}{path}", self.address()))
    }

    /// Returns the paths of a URL relative to each matching address, because one address may be a prefix of another.
    pub(crate) fn paths<'a>(&'a self, url: &'a str) -> impl Iterator<Item = &'a str> {
        // Downloads ignore query and fragment too.
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let rest = move |address: &'a String| url.strip_prefix(address.as_str());
        self.addresses.iter().filter_map(rest).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn object_at(&self, path: &str) -> Option<(String, String)> {
        let Location { bucket, token, key } = read(path)?;
        let is_right = token.as_bytes().ct_eq(self.token(&bucket, &key).as_bytes());
        bool::from(is_right).then_some((bucket, key))
    }

    fn token(&self, bucket: &str, key: &str) -> String {
        let mut hash = self.hash.clone();
        hash.update(bucket.as_bytes());
        hash.update(b"/");
        hash.update(key.as_bytes());
        hex(hash.finalize().into_bytes().get(..TOKEN_BYTES).unwrap_or_default())
    }
}

pub(super) fn read_former(path: &str) -> Option<(String, String)> {
    let Location { bucket, token, key } = read(path)?;
    Some((bucket, format!("{token}/{key}")))
}

pub(crate) fn read(path: &str) -> Option<Location> {
    if path.contains(['?', '#']) {
        return None;
    }
    let decoded = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
    let (bucket, rest) = decoded.split_once('/')?;
    let (token, key) = rest.split_once('/')?;
    let is_whole = [bucket, token, key].iter().all(|part| !part.is_empty());
    is_whole.then(|| Location { bucket: bucket.to_owned(), token: token.to_owned(), key: key.to_owned() })
}

/// Returns the base URL for download URLs: the configured one, or the listener's; None for a process with neither.
pub(crate) fn address(set: Option<&str>, listener: Option<std::net::SocketAddr>) -> Result<Option<String>> {
    let action = "reading the storage URL";
    let Some(set) = set else {
        let Some(listener) = listener else { return Ok(None) };
        if listener.ip().is_unspecified() {
            let cause = format!(
                "object storage listens on every address of this machine ({listener}), and none of them was \
                 set as the storage URL, at which clients reach it (--storage-url)"
            );
            return Err(Error::setting(action, cause));
        }
        return Ok(Some(format!("http://{listener}")));
    };
    let shown: String = set.chars().take(100).collect();
    let refused =
        |why: &str| Error::setting(action, format!("{shown:?} {why}; use one such as https://files.example"));
    let url = Url::parse(set).map_err(|cause| refused(&format!("is not a URL ({cause})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("is neither http nor https"));
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || url.query().is_some() || url.fragment().is_some() {
        return Err(refused("has a user, a query or a fragment"));
    }
    Ok(Some(url.as_str().trim_end_matches('/').to_owned()))
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use super::*;

    impl Locations {
        fn locate(&self, url: &str) -> Option<(String, String)> {
            let mut paths = self.paths(url).peekable();
            paths.peek()?;
            Some(paths.find_map(|path| self.object_at(path)).unwrap_or_default())
        }
    }

    fn locations(secret: &str) -> Locations {
        let addresses = ["http://current/x", "http://former"].map(str::to_owned).to_vec();
        Locations::new(addresses, secret).expect("any secret will do")
    }

    #[test]
    fn a_former_address_may_begin_with_the_current_one() {
        let former =
            Locations::new(vec!["http://host/files".to_owned()], "secret").expect("any secret will do");
        let addresses = ["http://host", "http://host/files"].map(str::to_owned).to_vec();
        let now = Locations::new(addresses, "secret").expect("any secret will do");
        let object = Some(("bucket".to_owned(), "a.png".to_owned()));
        for url in [former.url("bucket", "a.png"), now.url("bucket", "a.png")] {
            assert_eq!(now.locate(&url), object);
        }
        assert!(now.have_moved() && !former.have_moved());
        assert_eq!(now.current_url(&former.url("bucket", "a.png")), Some(now.url("bucket", "a.png")));
    }

    #[test]
    fn objects_samples_and_urls_of_the_first_versions_get_the_current_address() {
        let it = locations("secret");
        for path in ["/samples/ball.jpg", "/files-x/samples/a.png", &it.path("files-x", "samples/a.png")] {
            let current = Some(format!("http://current/x{path}"));
            assert_eq!(it.current_url(&format!("http://former{path}")), current);
            assert_eq!(it.current_url(&format!("http://current/x{path}")), current);
        }
        assert_eq!(it.current_url("http://other/samples/ball.jpg"), None);
    }

    #[test]
    fn the_address_comes_from_setting_or_listener_and_must_be_reachable() {
        let listener = |text: &str| Some(text.parse().expect("an address"));
        let of = |set, at| address(set, at).ok().flatten();
        assert_eq!(of(None, listener("127.0.0.1:80")).as_deref(), Some("http://127.0.0.1:80"));
        assert_eq!(of(None, None), None);
        assert!(address(None, listener("0.0.0.0:80")).is_err());
        let set = "https://files.example/at/";
        assert_eq!(of(Some(set), listener("0.0.0.0:80")).as_deref(), Some("https://files.example/at"));
        for refused in [
            "files.example",
            "ftp://files.example",
            "https://user@files.example",
            "https://:password@files.example",
            "https://files.example?query",
            "https://files.example#fragment",
        ] {
            assert!(address(Some(refused), None).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_url_names_its_object_at_each_address_and_in_every_way_of_escaping() {
        let it = locations("secret");
        for key in ["documents/a b+c$%?#&='\"\\.txt", "samples/日本語 ü.png", "avatars/%2e%2e", "covers/~-_."]
        {
            let object = Some(("files-x".to_owned(), key.to_owned()));
            let url = it.url("files-x", key);
            assert!(url.is_ascii() && url.starts_with("http://current/x/files-x/"), "{url}");
            assert_eq!(it.locate(&url), object);
            assert_eq!(it.locate(&url.replace("current/x", "current/xy")), None);
            assert_eq!(it.locate(&url.replace("http://current/x", "http://former")), object);
            assert_eq!(it.locate(&url.replace("http://current/x", "http://other")), None);
            let no_object = Some((String::new(), String::new()));
            assert_eq!(it.locate(&format!("{url}?x=1&y#z")), object);
            assert_eq!(it.object_at(&format!("/{}", it.path("files-x", key))), None);
            assert_eq!(locations("another").locate(&url), no_object);
        }
        let escaped = it.url("b", "samples/a b$ü.txt");
        assert_eq!(it.locate(&escaped.replace("%20", " ").replace("%24", "$")), it.locate(&escaped));
    }

    #[test]
    fn the_token_of_one_object_opens_no_other() {
        let it = locations("secret");
        let path = it.path("b", "samples/a.txt");
        for other in [
            path.replace("a.txt", "b.txt"),
            path.replace("/b/", "/c/"),
            path.replace("samples", "covers"),
            "/b/samples/a.txt".to_owned(),
            "/b//samples/a.txt".to_owned(),
            "/b".to_owned(),
        ] {
            assert_eq!(it.object_at(&other), None, "{other}");
        }
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn every_key_comes_back_from_its_path(bucket in "[a-z0-9-]{3,20}", key in any::<String>()) {
                let it = locations("secret");
                let path = it.path(&bucket, &key);
                prop_assert!(path.is_ascii() && !path.contains(['?', '#', ' ', '\\']));
                prop_assert_eq!(it.object_at(&path), (!key.is_empty()).then_some((bucket, key)));
            }
        }
    }
}
