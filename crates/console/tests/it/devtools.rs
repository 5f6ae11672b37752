//! Client of Chromium's DevTools protocol: pages, mouse and keyboard, dropped files, screenshots.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const PAGE_TIMEOUT: Duration = Duration::from_mins(1);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Headless Chromium; dropping it ends the process.
pub(crate) struct Browser {
    _process: Child,
    _profile: TempDir,
    wire: Arc<Wire>,
}

pub(crate) struct Tab {
    wire: Arc<Wire>,
    session: String,
}

struct Wire {
    next: AtomicU64,
    sink: tokio::sync::Mutex<SplitSink<Socket, Message>>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    requests: Mutex<Vec<String>>,
    problems: Mutex<Vec<String>>,
}

impl Wire {
    async fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        let response = self.exchange(session, method, parameters).await;
        assert!(response.get("error").is_none(), "{method}: {}", response["error"]);
        response["result"].clone()
    }

    async fn exchange(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (respond, response) = oneshot::channel();
        self.pending.lock().expect("not poisoned").insert(id, respond);
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.sink.lock().await.send(Message::text(message.to_string())).await.expect("the browser listens");
        let response = tokio::time::timeout(PAGE_TIMEOUT, response).await;
        response.unwrap_or_else(|_| panic!("{method} took too long")).expect("the browser runs")
    }

    fn receive(&self, text: &str) {
        let message: Value = serde_json::from_str(text).expect("the browser speaks JSON");
        if let Some(id) = message["id"].as_u64() {
            if let Some(respond) = self.pending.lock().expect("not poisoned").remove(&id) {
                let _ = respond.send(message);
            }
            return;
        }
        let parameters = &message["params"];
        let problem = |text: &Value| self.problems.lock().expect("not poisoned").push(text.to_string());
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.lock().expect("not poisoned").push(url.to_owned());
            }
            Some("Runtime.exceptionThrown") => problem(&parameters["exceptionDetails"]),
            // Violations of the content security policy are log entries.
            Some("Log.entryAdded") if parameters["entry"]["source"] == "security" => {
                problem(&parameters["entry"]);
            }
            _ => {}
        }
    }
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut process = Command::new("chromium")
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"])
            .args(["--disable-features=Translate,MediaRouter,OptimizationHints", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Chromium starts; install the package `chromium`");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let address = loop {
            let line = lines.next_line().await.expect("lines").expect("Chromium says where it listens");
            if let Some(address) = line.strip_prefix("DevTools listening on ") {
                break address.to_owned();
            }
        };
        // A full pipe would block the browser.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = connect_async(address).await.expect("Chromium accepts a connection");
        let (sink, mut stream) = socket.split();
        let wire = Arc::new(Wire {
            next: AtomicU64::new(1),
            sink: tokio::sync::Mutex::new(sink),
            pending: Mutex::default(),
            requests: Mutex::default(),
            problems: Mutex::default(),
        });
        let receiver = Arc::clone(&wire);
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message {
                    receiver.receive(text.as_str());
                }
            }
        });
        Self { _process: process, _profile: profile, wire }
    }

    pub(crate) async fn tab(&self) -> Tab {
        let created = self.wire.call(None, "Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": created["targetId"], "flatten": true});
        let attached = self.wire.call(None, "Target.attachToTarget", attach).await;
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        let tab = Tab { wire: Arc::clone(&self.wire), session };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await;
        }
        tab.size(1280, 820, 1).await;
        tab
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.wire.requests.lock().expect("not poisoned").clone()
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.wire.problems.lock().expect("not poisoned").clone()
    }
}

impl Tab {
    async fn call(&self, method: &str, parameters: Value) -> Value {
        self.wire.call(Some(&self.session), method, parameters).await
    }

    pub(crate) async fn size(&self, width: u32, height: u32, scale: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    pub(crate) async fn telephone(&self) {
        let metrics = json!({"width": 360, "height": 740, "deviceScaleFactor": 3, "mobile": true});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": true})).await;
    }

    pub(crate) async fn colors(&self, scheme: &str, forced: &str) {
        let features = [
            ("prefers-color-scheme", scheme),
            ("forced-colors", forced),
            ("prefers-reduced-motion", "reduce"),
        ];
        let features = features.map(|(name, value)| json!({"name": name, "value": value}));
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    pub(crate) async fn scripts(&self, are_on: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !are_on})).await;
    }

    pub(crate) async fn open(&self, url: &str) {
        self.replace_page("Page.navigate", json!({"url": url})).await;
    }

    pub(crate) async fn reload(&self) {
        self.replace_page("Page.reload", json!({})).await;
    }

    /// Returns when the new page has loaded: until then, expressions are evaluated in the old one.
    async fn replace_page(&self, method: &str, parameters: Value) {
        self.eval("window.isOld = true").await;
        self.call(method, parameters).await;
        self.until("!window.isOld && document.readyState === 'complete'").await;
    }

    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let result = self.call("Runtime.evaluate", parameters).await;
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until the expression is true, even if the page is replaced meanwhile.
    pub(crate) async fn until(&self, expression: &str) {
        let start = Instant::now();
        let guarded =
            format!("(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()");
        let parameters = json!({"expression": guarded, "returnByValue": true});
        while start.elapsed() < PAGE_TIMEOUT {
            let response =
                self.wire.exchange(Some(&self.session), "Runtime.evaluate", parameters.clone()).await;
            if response["result"]["result"]["value"] == true {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!(
            "never true: {expression}\n{}",
            self.eval("location.href + '\\n' + document.body.innerText").await
        );
    }

    pub(crate) async fn shows(&self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    pub(crate) async fn middle(&self, selector: &str) -> (f64, f64) {
        // A missing style would move the element later.
        self.until("document.readyState === 'complete'").await;
        let found = format!("document.querySelector({})", json!(selector));
        self.until(&found).await;
        let place = format!(
            "{found}.scrollIntoView({{block: 'center', behavior: 'instant'}}), \
             (({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found}.getBoundingClientRect())"
        );
        let place = self.eval(&place).await;
        (place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"))
    }

    pub(crate) async fn click(&self, selector: &str) {
        let (x, y) = self.middle(selector).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    pub(crate) async fn tap(&self, selector: &str) {
        let (x, y) = self.middle(selector).await;
        for (kind, points) in [("touchStart", json!([{"x": x, "y": y}])), ("touchEnd", json!([]))] {
            self.call("Input.dispatchTouchEvent", json!({"type": kind, "touchPoints": points})).await;
        }
    }

    pub(crate) async fn text(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    pub(crate) async fn choose(&self, selector: &str, file: &Path) {
        let element = format!("document.querySelector({})", json!(selector));
        self.until(&element).await;
        let element = json!({"expression": element});
        let element = self.call("Runtime.evaluate", element).await;
        let chosen = json!({"objectId": element["result"]["objectId"], "files": [file]});
        self.call("DOM.setFileInputFiles", chosen).await;
    }

    /// Turns the wheel over an element; up is negative.
    pub(crate) async fn wheel(&self, selector: &str, turns: f64) {
        let (x, y) = self.middle(selector).await;
        let event = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": turns});
        self.call("Input.dispatchMouseEvent", event).await;
    }

    pub(crate) async fn key(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            " " => 32,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            one if one.chars().count() == 1 => one,
            _ => "",
        };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for kind in [down, "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    pub(crate) async fn drop(&self, selector: &str, file: &Path) {
        let (x, y) = self.middle(selector).await;
        let data = json!({"items": [], "files": [file], "dragOperationsMask": 1});
        for kind in ["dragEnter", "dragOver", "drop"] {
            let event = json!({"type": kind, "x": x, "y": y, "data": data});
            self.call("Input.dispatchDragEvent", event).await;
        }
    }

    pub(crate) async fn picture(&self, name: &str) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
        std::fs::create_dir_all(&folder).expect("a folder for pictures");
        let bytes = self.capture(json!({"format": "webp", "quality": 45})).await;
        std::fs::write(folder.join(format!("{name}.webp")), bytes).expect("a picture can be written");
    }

    pub(crate) async fn pixels(&self) -> image::RgbImage {
        let bytes = self.capture(json!({"format": "png"})).await;
        image::load_from_memory(&bytes).expect("a picture").into_rgb8()
    }

    async fn capture(&self, format: Value) -> Vec<u8> {
        let taken = self.call("Page.captureScreenshot", format).await;
        STANDARD.decode(taken["data"].as_str().expect("a picture")).expect("base64")
    }
}
