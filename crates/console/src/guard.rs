//! Guard: who may use the console. Checks `Host`, `Origin` and the token of every request, and sets the
//! headers that keep pages from loading or running anything else.

use std::io;
use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERRER_POLICY, REFRESH,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::failure::Failure;
use crate::state::{Shared, random_id};

/// Nothing from elsewhere, no inline script or style. `blob:` is the preview of a chosen file.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The token of a console, and the cookie in which browsers keep it.
pub(crate) struct Guard {
    token: String,
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

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether the host is this console under an IP address or `localhost`. Only other names can be made to
    /// lead here by the DNS of a stranger.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        let name = name.trim_start_matches('[').trim_end_matches(']');
        port.parse() == Ok(self.port) && (name == "localhost" || name.parse::<IpAddr>().is_ok())
    }

    fn is_token(&self, text: &str) -> bool {
        text.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
        let mut cookies = cookies;
        cookies.any(|cookie| cookie.trim_ascii().ct_eq(self.cookie.as_bytes()).into())
    }

    /// A page that sets the cookie and leads on. A redirect would not do: a browser that came from another
    /// site sends a `SameSite=Strict` cookie only with what a page of this site asks for.
    fn admit(&self) -> Response {
        let cookie = format!("{}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
        let page = "<!doctype html><html lang=en><title>Inferstore</title><p><a href=/>Open the console</a>";
        let headers = [(SET_COOKIE, cookie.as_str()), (REFRESH, "0; url=/"), (CONTENT_TYPE, "text/html")];
        (headers, page).into_response()
    }

    fn refuse(&self, request: &Request) -> Option<Failure> {
        let headers = request.headers();
        let one = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = one(HOST).unwrap_or_default();
        if headers.get_all(HOST).iter().count() != 1 || !self.is_own_host(host) {
            return Some(Failure::refused("This console is not served under that name."));
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_own_origin = match headers.get(ORIGIN) {
            Some(_) => one(ORIGIN).is_some_and(|origin| origin.strip_prefix("http://") == Some(host)),
            None => is_read,
        };
        // A page of another site or port may lead here, and may not embed anything.
        let site = one(HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
        let mode = one(HeaderName::from_static("sec-fetch-mode")).unwrap_or_default();
        let is_own_site = matches!(site, "same-origin" | "none") || (is_read && mode == "navigate");
        if !is_own_origin || !is_own_site {
            return Some(Failure::refused("Another site sent this request."));
        }
        None
    }
}

/// Every request passes through here.
pub(crate) async fn check(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let token = request.uri().query().and_then(|query| query.strip_prefix("token="));
    let is_asset = path.starts_with("/assets/");
    let mut response = if let Some(failure) = app.guard.refuse(&request) {
        failure.into_response()
    } else if token.is_some_and(|token| path == "/" && app.guard.is_token(token)) {
        app.guard.admit()
    } else if is_asset || app.guard.has_cookie(request.headers()) {
        next.run(request).await
    } else {
        let text = "Open the address that the command printed: it holds a token.";
        Failure::new(StatusCode::UNAUTHORIZED, "This browser is not admitted", text).into_response()
    };
    let headers = response.headers_mut();
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
    response
}
