//! Access control of the console: checks `Host`, `Origin` and token of every request; headers stop foreign content.

use std::net::IpAddr;
use std::time::Duration;

use axum::Form;
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, REFRESH, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, html};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::assets::ICON;
use crate::failure::Failure;
use crate::parts::page;
use crate::text::{Words, word};

/// Content security policy: nothing foreign, no inline script or style. `blob:` previews a chosen file.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) struct Guard {
    pub(crate) token: String,
    cookie: String,
    port: u16,
}

impl Guard {
    pub(crate) fn new(port: u16, token: String) -> Self {
        // Cookies do not distinguish ports, so the name has the port.
        let cookie = format!("inferstore-console-{port}={token}");
        Self { token, cookie, port }
    }

    /// Protection from DNS rebinding, which needs another name: true for an IP address or `localhost` with this port.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        let name = name.trim_start_matches('[').trim_end_matches(']');
        port.parse() == Ok(self.port)
            && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let mut cookies =
            headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
        cookies.any(|cookie| cookie.trim_ascii().ct_eq(self.cookie.as_bytes()).into())
    }

    /// Returns a page that sets the cookie and navigates on. A redirect would not work: after a navigation from another
    /// site, a browser sends a `SameSite=Strict` cookie only with requests of a page of this site.
    fn admit(&self, path: &str) -> Response {
        let cookie = format!("{}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                title { "Inferstore" }
                link rel="icon" href=(*ICON.address);
                p { a href={ "/" (path) } { "Open the console" } }
            }
        };
        ([(SET_COOKIE, cookie), (REFRESH, format!("0; url=/{path}"))], page).into_response()
    }

    fn has_token(&self, text: &str) -> bool {
        let token = text.rsplit_once("token=").map_or(text, |(_, token)| token);
        let token = token.split('&').next().unwrap_or_default().trim();
        token.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    /// Admits a browser by a form with the token. Anyone may send one, so it is small, soon there, and one of few.
    pub(crate) async fn admit_form(&self, mut request: Request) -> Response {
        static READS: Semaphore = Semaphore::const_new(16);
        DefaultBodyLimit::max(16 * 1024).apply(&mut request);
        let form = match READS.try_acquire() {
            Ok(_permit) => {
                timeout(Duration::from_secs(5), Form::<Words>::from_request(request, &())).await.ok()
            }
            Err(_) => None,
        };
        let form = form.and_then(Result::ok).map(|Form(form)| form).unwrap_or_default();
        let path = word(&form, "page");
        match self.has_token(word(&form, "address")) {
            true => self.admit(if is_page(path) { path } else { "" }),
            false => not_admitted(path, true),
        }
    }

    pub(crate) fn refuse(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let one = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = one(HOST).unwrap_or_default();
        let is_own_host = headers.get_all(HOST).iter().count() == 1 && self.is_own_host(host);
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_own_origin = headers.get(ORIGIN).map_or(is_read, |origin| {
            origin.to_str().is_ok_and(|origin| origin.strip_prefix("http://") == Some(host))
        });
        // A page of another site or port may link here, but not embed anything.
        let site = one(HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
        let mode = one(HeaderName::from_static("sec-fetch-mode")).unwrap_or_default();
        let is_own_site = matches!(site, "same-origin" | "none") || (is_read && mode == "navigate");
        if !is_own_host || !is_own_origin || !is_own_site {
            let text = "Another site sent this request, or sent it to another name than this console's, or the request lacks its Origin.";
            return Some(Failure::new(StatusCode::FORBIDDEN, "The request is refused", text).into_response());
        }
        let path = request.uri().path();
        let admission = request.uri().query().filter(|query| path == "/" && query.starts_with("token="));
        if let Some(query) = admission.filter(|query| self.has_token(query)) {
            let page = query.split_once("&page=").map(|(_, page)| page).filter(|page| is_page(page));
            return Some(self.admit(page.unwrap_or_default()));
        }
        if path.starts_with("/assets/") || path == "/admit" || self.has_cookie(headers) {
            return None;
        }
        Some(not_admitted(path.trim_start_matches('/'), false))
    }
}

/// Returns true if this is the path of a page, without the first slash, and valid in a header.
fn is_page(path: &str) -> bool {
    let of_segment = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte);
    path.split('/').all(|part| !part.is_empty() && part.bytes().all(of_segment))
}

fn not_admitted(path: &str, is_wrong: bool) -> Response {
    let title = "This browser is not admitted";
    let body = html! {
        h1 { (title) }
        form.card.field.invalid[is_wrong] method="post" action="/admit" {
            p { "Open the address that the command printed, or paste it here: it holds a token. The browser must accept cookies of this address." }
            label for="address" { "Address of the console, or its token" }
            input type="password" id="address" name="address" required autocomplete="off" aria-describedby="address.help";
            p.help id="address.help" {
                @if is_wrong { span.error role="alert" { "Error: this is not the token of this console. " } }
                "The console of " code { "inferstore serve" } " keeps its token in the file " code { "console" }
                " of the data folder; " code { "inferstore open" } " starts another console."
            }
            input type="hidden" name="page" value=(path);
            button.primary type="submit" { "Open the console" }
        }
    };
    (StatusCode::UNAUTHORIZED, page(&format!("Error: {title}"), "", body)).into_response()
}

pub(crate) fn protect(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, PAGE_POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // With `no-referrer`, a browser would omit the origin of a form.
    set(REFERRER_POLICY, "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(CACHE_CONTROL, "no-store");
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::body::Body;
    use axum::http::header::CONTENT_TYPE;
    use futures_util::{FutureExt, stream};

    use super::*;

    fn form(body: Body) -> Request {
        let mut form = Request::new(body);
        *form.method_mut() = Method::POST;
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        form.headers_mut().insert(CONTENT_TYPE, kind);
        form
    }

    #[tokio::test(start_paused = true)]
    async fn forms_of_strangers_are_small_few_and_soon_there() {
        let guard = Guard::new(0, "token".to_owned());
        let status = async |body| guard.admit_form(form(body)).await.status();
        assert_eq!(status(Body::from("address=token")).await, StatusCode::OK);
        let large = format!("address=token&page={}", "a".repeat(20_000));
        assert_eq!(status(Body::from(large)).await, StatusCode::UNAUTHORIZED);

        let endless = || Body::from_stream(stream::pending::<io::Result<&str>>());
        let mut first: Vec<_> = (0..16).map(|_| Box::pin(status(endless()))).collect();
        assert!(first.iter_mut().all(|form| form.as_mut().now_or_never().is_none()));
        assert_eq!(status(endless()).now_or_never(), Some(StatusCode::UNAUTHORIZED));
        for form in first {
            assert_eq!(form.await, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(status(Body::from("address=token")).await, StatusCode::OK);
    }
}
