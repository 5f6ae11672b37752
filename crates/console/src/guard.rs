//! Guard: who may use the console. Checks `Host`, `Origin` and the token of every request, and sets the
//! headers that keep pages from loading or running anything else.

use std::io;
use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, REFRESH, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, html};
use subtle::ConstantTimeEq;

use crate::failure::Failure;
use crate::state::random_id;

/// Nothing from elsewhere, no inline script or style. `blob:` is the preview of a chosen file.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The token of a console, and the cookie in which browsers keep it.
pub(crate) struct Guard {
    pub(crate) token: String,
    cookie: String,
    port: u16,
}

impl Guard {
    pub(crate) fn new(port: u16) -> io::Result<Self> {
        let token = random_id()?;
        // Cookies do not distinguish ports, so the name does.
        let cookie = format!("inferstore-console-{port}={token}");
        Ok(Self { token, cookie, port })
    }

    /// Whether the host is this console under an IP address or `localhost`. Only other names can be made to
    /// lead here by DNS.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        let name = name.trim_start_matches('[').trim_end_matches(']');
        port.parse() == Ok(self.port) && (name == "localhost" || name.parse::<IpAddr>().is_ok())
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let mut cookies =
            headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
        cookies.any(|cookie| cookie.trim_ascii().ct_eq(self.cookie.as_bytes()).into())
    }

    /// A page that sets the cookie and leads on. A redirect would not do: a browser that came from another
    /// site sends a `SameSite=Strict` cookie only with what a page of this site asks for.
    fn admit(&self, path: &str) -> Response {
        let cookie = format!("{}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
        let page = html! { (DOCTYPE) html lang="en" { title { "Inferstore" } p { a href={ "/" (path) } { "Open the console" } } } };
        ([(SET_COOKIE, cookie), (REFRESH, format!("0; url=/{path}"))], page).into_response()
    }

    /// The response to a request that gets no page: it has no token yet, or comes from elsewhere.
    pub(crate) fn refuse(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let refused = |status, title, text| Some(Failure::new(status, title, text).into_response());
        let one = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = one(HOST).unwrap_or_default();
        let is_own_host = headers.get_all(HOST).iter().count() == 1 && self.is_own_host(host);
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_own_origin = headers.get(ORIGIN).map_or(is_read, |origin| {
            origin.to_str().is_ok_and(|origin| origin.strip_prefix("http://") == Some(host))
        });
        // A page of another site or port may lead here, and may not embed anything.
        let site = one(HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
        let mode = one(HeaderName::from_static("sec-fetch-mode")).unwrap_or_default();
        let is_own_site = matches!(site, "same-origin" | "none") || (is_read && mode == "navigate");
        if !is_own_host || !is_own_origin || !is_own_site {
            let text = "Another site sent this request, or sent it to another name than this console's.";
            return refused(StatusCode::FORBIDDEN, "The request is refused", text);
        }
        let path = request.uri().path();
        let admission = request.uri().query().and_then(|query| query.strip_prefix("token="));
        let (token, page) = admission.map(|rest| rest.split_once("&page=").unwrap_or((rest, ""))).unzip();
        let is_token = |text: &str| bool::from(text.as_bytes().ct_eq(self.token.as_bytes()));
        if path == "/" && token.is_some_and(is_token) {
            // The path of a page, which can stand in a header as it is.
            let of_segment = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte);
            let is_page =
                |page: &&str| page.split('/').all(|part| !part.is_empty() && part.bytes().all(of_segment));
            return Some(self.admit(page.filter(is_page).unwrap_or_default()));
        }
        if path.starts_with("/assets/") || self.has_cookie(headers) {
            return None;
        }
        let text = "Open the address that the command printed: it holds a token.";
        refused(StatusCode::UNAUTHORIZED, "This browser is not admitted", text)
    }
}

/// Sets the headers that keep a page from loading or running anything else.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, PAGE_POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // With `no-referrer` a browser would hide the origin of a form.
    set(REFERRER_POLICY, "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(CACHE_CONTROL, "no-store");
}
