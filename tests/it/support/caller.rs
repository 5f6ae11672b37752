//! Caller that validates every response of the service, success or failure, against the document.

use inferstore_document::schema::mistakes_of_our_own;
use inferstore_document::{Operation, operations};
use inferstore_service::Service;
use reqwest::{Method, Response};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    base_url: String,
    key: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn data(&self) -> &Value {
        assert_eq!(self.body["status"], "success", "{self:?}");
        &self.body["data"]
    }

    pub(crate) fn refusal(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        self.body["message"].as_str().expect("a refusal has a message")
    }
}

#[derive(Default)]
pub(crate) struct Odd<'a> {
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Caller {
    pub(crate) fn first(service: &Service) -> Self {
        Self::of(service, service.api_key())
    }

    pub(crate) fn of(service: &Service, key: Option<&str>) -> Self {
        Self::at(service.base_url(), key)
    }

    pub(crate) fn at(base_url: &str, key: Option<&str>) -> Self {
        // From the API crate, which has chosen the TLS library.
        let http = inferstore_api::http_client_builder().no_proxy().build().expect("a client can be made");
        Self { http, base_url: base_url.to_owned(), key: key.map(str::to_owned) }
    }

    pub(crate) fn anew(&self) -> Self {
        Self::at(&self.base_url, self.key.as_deref())
    }

    pub(crate) fn with_key(&self, key: Option<&str>) -> Self {
        Self { key: key.map(str::to_owned), ..self.clone() }
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, Odd::default()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, Odd::default()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        let headers = vec![("content-type", "application/json")];
        self.send(Method::POST, path, Odd { headers, body: Some(body.into()) }).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, odd: Odd<'_>) -> Answer {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.base_url));
        if let Some(key) = &self.key {
            request = request.header("x-api-key", key);
        }
        for (name, value) in odd.headers {
            request = request.header(name, value);
        }
        if let Some(body) = odd.body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap_or_else(|cause| panic!("{method} {path}: {cause:?}"));
        judged(&method, path, response).await
    }
}

pub(crate) fn operation(method: &Method, path: &str) -> Option<Operation> {
    let segments: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        parts.len() == segments.len()
            && parts.iter().zip(&segments).all(|(part, segment)| part.starts_with('{') || part == segment)
    };
    operations()
        .filter(|operation| fits(operation.path))
        // A literal path takes precedence over a template, whatever the method.
        .min_by_key(|operation| operation.path.matches('{').count())
        .and_then(|found| operations().find(|it| it.path == found.path && is_method(*it, method)))
}

fn is_method(operation: Operation, method: &Method) -> bool {
    operation.method.eq_ignore_ascii_case(method.as_str())
}

async fn judged(method: &Method, path: &str, response: Response) -> Answer {
    let status = response.status();
    let headers = response.headers().clone();
    let place = format!("{method} {path} answered {status}");
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!(header("x-request-id").len(), 36, "{place}: a request has an identifier");
    assert_eq!(header("idempotency-key-retention"), "86400", "{place}: keys of creates are known");
    assert_eq!(header("content-type"), "application/json", "{place}");
    let bytes = response.bytes().await.unwrap_or_else(|cause| panic!("{place}: {cause:?}"));
    if *method == Method::HEAD {
        assert!(bytes.is_empty(), "{place}");
        return Answer { status: status.as_u16(), headers, body: Value::Null };
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_else(|cause| panic!("{place}: {cause}"));
    let schema = match operation(method, path) {
        Some(operation) => schema_of(operation, status.as_u16()),
        None => {
            assert!(status.is_client_error(), "{place}, and the document does not know it");
            json!({ "$ref": "#/components/schemas/Failure" })
        }
    };
    assert_eq!(mistakes_of_our_own(&schema, &body), Vec::<String>::new(), "{place}: {body}");
    assert_eq!(body["status"] == "success", status.is_success(), "{place}: {body}");
    Answer { status: status.as_u16(), headers, body }
}

fn schema_of(operation: Operation, status: u16) -> Value {
    let class = format!("{}XX", status / 100);
    let find = |wanted: &str| operation.responses().find(|(code, _)| *code == wanted);
    let found = find(&status.to_string()).or_else(|| find(&class));
    let (_, content) = found.unwrap_or_else(|| panic!("{} declares no {status}", operation.id()));
    content["schema"].clone()
}

pub(crate) fn filled(template: &str, value: &str) -> String {
    template
        .split('/')
        .map(|part| if part.starts_with('{') { value } else { part })
        .collect::<Vec<_>>()
        .join("/")
}
