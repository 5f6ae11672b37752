//! `inferstore node run`, as a process beside a service.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use inferstore_service::{AdminClient, Config, ModelChange, Service};
use rustls::ServerConfig;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A service with a listener for nodes, and the folder of a node beside it.
struct Lab {
    _temporary: TempDir,
    data: PathBuf,
    folder: PathBuf,
    service: Service,
    /// Address of the listener for nodes.
    url: String,
}

impl Lab {
    async fn start() -> Self {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let (data, folder) = (temporary.path().join("data"), temporary.path().join("lab"));
        let mut config = Config::folder(&data);
        config.nodes = Some(([127, 0, 0, 1], 0).into());
        let service = Service::start(config).await.expect("the service starts");
        std::fs::create_dir(&folder).expect("a folder can be made");
        let url = service.nodes_url().expect("there is a listener").to_owned();
        Self { _temporary: temporary, data, folder, service, url }
    }

    fn write(&self, name: &str, content: impl ToString) {
        std::fs::write(self.folder.join(name), content.to_string()).expect("a file can be written");
    }

    /// Returns the command that runs the node. A variable without a value is no key.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inferstore"));
        command.env("INFERSTORE_NODE_KEY", "").args(["node", "run"]).arg(&self.folder);
        command.arg("--data-dir").arg(&self.data);
        command
    }
}

/// Starts a node, and waits until it serves.
fn node(lab: &Lab) -> Child {
    let mut process = lab.command().stderr(Stdio::piped()).spawn().expect("it starts");
    let stderr = process.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(stderr).lines().map(|line| line.expect("a line"));
    let registered = lines.find(|line| line.contains("registered"));
    assert!(registered.is_some(), "the node has ended");
    process
}

fn interrupt(mut node: Child) {
    let id = node.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().expect("it runs");
    assert!(node.wait().expect("it ends").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_draws_a_key_of_its_own_and_revokes_no_other() {
    let lab = Lab::start().await;
    lab.service.add_node_key("lab").await.expect("the name is free");
    lab.write("node.json", json!({ "service": lab.url, "models": { "echo": { "command": ["true"] } } }));

    let (first, second) = (node(&lab), node(&lab));
    interrupt(first);
    let third = node(&lab);
    for process in [second, third] {
        interrupt(process);
    }
    assert!(lab.service.revoke_node_key("lab").await.expect("the database works"), "the key was valid");
    lab.service.shutdown().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_ends_the_node_before_it_is_registered() {
    let lab = Lab::start().await;
    let settings = json!({
        "service": lab.url,
        "workers": { "broken": { "command": ["sh", "-c", "echo 'SyntaxError: invalid syntax' >&2; exit 1"] } },
        "models": { "echo": { "worker": "broken" } },
    });
    lab.write("node.json", settings);
    let ended = lab.command().output().expect("it starts");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && stderr.contains("SyntaxError"), "{stderr}");
    assert!(!stderr.contains("registered") && !stderr.contains("serving"), "{stderr}");
    lab.service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_publishes_no_model_that_it_does_not_serve() {
    let lab = Lab::start().await;
    let settings = json!({
        "service": "http://127.0.0.1:9", "publish": ["model.json"], "models": { "echo": { "command": ["true"] } },
    });
    lab.write("node.json", settings);
    lab.write("model.json", json!({ "id": "repeat" }));
    let ended = lab.command().output().expect("it runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("model.json: the node serves echo, not repeat"), "{stderr}");
    lab.service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_states_what_the_file_changed_and_leaves_the_rest_to_operators() {
    let lab = Lab::start().await;
    let settings = json!({
        "service": lab.url, "publish": ["model.json"], "models": { "echo": { "command": ["true"] } },
    });
    lab.write("node.json", settings);
    let start = async |name: &str, price: &str| {
        let model = json!({
            "id": "echo", "name": name, "description": "", "price": price, "visibility": "public",
            "input_format": {}, "output_format": { "text": { "type": "string", "position": 0 } },
        });
        lab.write("model.json", model);
        interrupt(node(&lab));
        let mut admin = AdminClient::open(&lab.data).await.expect("the service runs");
        let models = admin.call("GET", &["models"], None).await.expect("a list");
        admin.close().await;
        let models = models["models"].as_array().expect("models").clone();
        let echo = models.into_iter().find(|model| model["model"] == "echo").expect("it is published");
        [&echo["name"], &echo["price"]].map(|value| value.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(start("first", "0.1").await, ["first", "0.1"]);
    let change = ModelChange {
        name: Some("operator".to_owned()),
        price: Some("0.5".parse().expect("an amount")),
        ..ModelChange::default()
    };
    lab.service.change_model("echo", change).await.expect("the model is there");
    assert_eq!(start("first", "0.1").await, ["operator", "0.5"], "the file is as before");
    assert_eq!(start("second", "0.1").await, ["second", "0.5"], "the file has another name");
    assert_eq!(start("second", "0.2").await, ["second", "0.2"]);
    lab.service.shutdown().await;
}

/// Starts a TLS proxy in front of a service, with a self-signed certificate. Returns its address and the certificate.
pub(crate) async fn tls_in_front_of(service: String) -> (String, String) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = signed.signing_key.serialize_der().try_into().expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("the versions are supported").with_no_client_auth();
    let config = config.with_single_cert(vec![signed.cert.der().clone()], key).expect("the key fits");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, service) = (acceptor.clone(), service.clone());
            tokio::spawn(async move {
                // The handshake fails if the node rejects the certificate.
                let Ok(mut connection) = acceptor.accept(connection).await else { return };
                let mut service = TcpStream::connect(service).await.expect("the service listens");
                let _ = tokio::io::copy_bidirectional(&mut connection, &mut service).await;
            });
        }
    });
    (format!("https://localhost:{port}"), signed.cert.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_trusts_the_certificate_that_an_option_or_its_settings_name() {
    let lab = Lab::start().await;
    let key = lab.service.add_node_key("lab").await.expect("the name is free");
    let (url, pem) = tls_in_front_of(lab.url.trim_start_matches("http://").to_owned()).await;
    lab.write("cert.pem", pem);
    let certificate = lab.folder.join("cert.pem").display().to_string();

    for (in_settings, option, variable, says) in [
        (None, None, None, "name the certificate of its authority by --cacert"),
        (None, Some(certificate.as_str()), None, "registered"),
        (None, None, Some(certificate.as_str()), "registered"),
        (Some("cert.pem"), None, None, "registered"),
        (None, Some("missing.pem"), None, "missing.pem cannot be used"),
    ] {
        let models = json!({ "echo": { "command": ["true"] } });
        lab.write("node.json", json!({ "service": url, "cacert": in_settings, "models": models }));
        let mut command = lab.command();
        command.env("INFERSTORE_NODE_KEY", &key);
        option.map(|file| command.args(["--cacert", file]));
        variable.map(|file| command.env("INFERSTORE_CACERT", file));
        let mut node = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = node.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let is_said = lines.any(|line| line.contains(says));
        assert!(is_said, "{in_settings:?} {option:?} {variable:?}: no line has {says:?}");
        let _ = node.kill();
        node.wait().expect("it ends");
    }
    lab.service.shutdown().await;
}
