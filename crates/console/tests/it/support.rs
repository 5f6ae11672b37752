//! Service with a console, and a minimal browser that sends requests like a real one.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use inferstore::Client;
use inferstore_console::{Console, LOCAL_POLL};
use inferstore_service::{Config, ModelSpec, Scope, Service};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

pub(crate) const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) const TEMPORARY: &str = "inferstore-console-";

pub(crate) struct Site {
    pub(crate) service: Service,
    pub(crate) console: Console,
    pub(crate) client: Client,
    pub(crate) key: String,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::start_with(Config::ephemeral().with_controls()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let service = Service::start(config).await.expect("a service starts");
        let key = service.api_key().expect("a fresh service has a key").to_owned();
        // A create whose responses are all lost is given up soon.
        let client = Client::builder(service.base_url(), key.as_str());
        let client = client.settings(|settings| settings.create_settle_time = Duration::from_secs(2));
        let client = client.build().expect("a client can be built");
        let console = Console::start(client.clone(), ANYWHERE, LOCAL_POLL).await.expect("a console starts");
        Self { service, console, client, key }
    }

    pub(crate) async fn open(&self) -> Visitor {
        Visitor::open(&self.console).await
    }
}

pub(crate) async fn publish(site: &Site, id: &str, description: &str, input: &Value, output: &Value) {
    let spec = json!({
        "id": id, "name": id, "description": description, "price": "0", "visibility": "public",
        "input_format": {"text": input}, "output_format": {"text": output}
    });
    let spec = ModelSpec::from_json(&spec.to_string()).expect("the model is well-formed");
    site.service.add_account("ada", Scope::Personal).await.expect("the name is free");
    site.service.publish_model("ada", spec).await.expect("the model can be published");
}

pub(crate) struct Visitor {
    pub(crate) http: reqwest::Client,
    pub(crate) origin: String,
    pub(crate) cookie: String,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.body.contains(text), "{text:?} is missing from {}", self.body);
        self
    }
}

pub(crate) async fn seen(request: RequestBuilder) -> Seen {
    let response = request.send().await.expect("the console responds");
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.expect("the body arrives");
    Seen { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
}

impl Visitor {
    pub(crate) async fn open(console: &Console) -> Self {
        let redirects = reqwest::redirect::Policy::none();
        let http = inferstore_api::http_client_builder()
            .redirect(redirects)
            .no_proxy()
            .build()
            .expect("a client can be built");
        let first = seen(http.get(console.url())).await;
        let cookie = first.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        let origin = console.url().split("/?").next().unwrap_or_default().to_owned();
        Self { http, origin, cookie }
    }

    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.origin)).header("cookie", &self.cookie)
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        seen(self.request(reqwest::Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, form: FormBody) -> Seen {
        let request = self.request(reqwest::Method::POST, path).header("origin", &self.origin);
        seen(request.header("content-type", form.content_type()).body(form.end())).await
    }

    pub(crate) async fn run(&self, model: &str, form: FormBody) -> String {
        let seen = self.post(&format!("/models/{model}"), form).await;
        assert_eq!(seen.status, StatusCode::SEE_OTHER, "{}", seen.body);
        seen.header("location").to_owned()
    }

    pub(crate) async fn result(&self, run: &str) -> Seen {
        for _ in 0..600 {
            let page = self.get(run).await;
            if page.status == StatusCode::SEE_OTHER {
                return self.get(page.header("location")).await;
            }
            if page.body.contains("role=\"alert\"") {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{run} has not ended");
    }
}

pub(crate) struct FormBody(Vec<u8>);

const BOUNDARY: &str = "----form-of-a-test";

impl FormBody {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.part(&format!("name=\"{name}\"\r\n"), value.as_bytes())
    }

    pub(crate) fn file(self, name: &str, file: &str, bytes: &[u8]) -> Self {
        let head =
            format!("name=\"{name}\"; filename=\"{file}\"\r\ncontent-type: application/octet-stream\r\n");
        self.part(&head, bytes)
    }

    fn part(mut self, head: &str, body: &[u8]) -> Self {
        self.0.extend(format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {head}\r\n").bytes());
        self.0.extend(body);
        self.0.extend(b"\r\n");
        self
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={BOUNDARY}")
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend(format!("--{BOUNDARY}--\r\n").bytes());
        self.0
    }
}

pub(crate) fn picture() -> Vec<u8> {
    let pixel = |x: u32, y: u32| {
        let wave = ((x + 2 * y) % 97) as u8;
        image::Rgb([90 + wave, 140 - wave / 2, 60 + (y % 128) as u8])
    };
    let picture = image::RgbImage::from_fn(320, 200, pixel);
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("a picture can be written");
    bytes.into_inner()
}
