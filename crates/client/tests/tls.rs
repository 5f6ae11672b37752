//! TLS settings of the caller, with any TLS feature, against a server of each test.

#![cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use inferstore::reqwest::tls::Version;
use inferstore::reqwest::{Certificate, ClientBuilder, Identity, Proxy};
use inferstore::{Client, Error, ErrorKind, FileErrorKind, Retry};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const BALANCE: &str = r#"{"status":"success","data":{"balance":"12.50"}}"#;

/// Environment variable of the base URL in the child process.
const CHILD_BASE_URL: &str = "INFERSTORE_TEST_BASE_URL";

/// Environment variable of a file with an authority that the system does not trust.
const CHILD_OTHER_ROOT: &str = "INFERSTORE_TEST_OTHER_ROOT";

struct Authority {
    pem: String,
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL finds an issuer by its name.
        parameters.distinguished_name.push(DnType::CommonName, "authority of a test");
        let signed = parameters.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(signed.der().clone()).unwrap();
        Self {
            pem: signed.pem(),
            certificate: Certificate::from_pem(signed.pem().as_bytes()).unwrap(),
            issuer: Issuer::new(parameters, key),
            roots: Arc::new(roots),
        }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([name.to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Returns a client certificate in the format of the enabled TLS library.
    fn identity(&self) -> Identity {
        let (certificate, key) = self.sign("client");
        let (certificate, key) = (certificate.pem(), key.serialize_pem());
        #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
        return Identity::from_pem(format!("{certificate}{key}").as_bytes()).unwrap();
        #[cfg(not(any(feature = "rustls", feature = "rustls-ring")))]
        return Identity::from_pkcs8_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    }

    /// Starts a server with a certificate of this authority, and returns its base URL.
    async fn serve(&self, settings: Settings) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(settings.versions).unwrap();
        let builder = if settings.needs_client_certificate {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.sign("localhost");
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        serve(config).await
    }
}

/// Serves a balance over TLS, and returns the base URL.
async fn serve(config: ServerConfig) -> String {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("https://localhost:{}/api/v1", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // The handshake fails if the client rejects the certificate.
            let Ok(mut connection) = acceptor.accept(connection).await else { continue };
            read_head(&mut connection).await;
            let length = BALANCE.len();
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            let _ = connection.write_all(format!("{head}{BALANCE}").as_bytes()).await;
            let _ = connection.shutdown().await;
        }
    });
    base_url
}

struct Settings {
    versions: &'static [&'static SupportedProtocolVersion],
    needs_client_certificate: bool,
}

const DEFAULT: Settings =
    Settings { versions: &[&version::TLS12, &version::TLS13], needs_client_certificate: false };

const ONLY_TLS12: &[&SupportedProtocolVersion] = &[&version::TLS12];

async fn read_head(connection: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    let mut chunk = [0; 1024];
    while !text.contains("\r\n\r\n") {
        match connection.read(&mut chunk).await {
            Ok(read @ 1..) => text.push_str(&String::from_utf8_lossy(&chunk[..read])),
            _ => break,
        }
    }
    text
}

fn configured(
    base_url: &str,
    configure: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static,
) -> inferstore::Result<Client> {
    Client::builder(base_url, "key")
        .settings(|settings| settings.retry = once())
        .configure_http(configure)
        .build()
}

fn once() -> Retry {
    let mut retry = Retry::default();
    retry.max_attempts = 1;
    retry
}

async fn assert_connects(client: inferstore::Result<Client>) {
    let balance = client.unwrap().balance().await.unwrap();
    assert_eq!(balance.balance, Some("12.50".parse().unwrap()));
}

async fn assert_refuses(client: inferstore::Result<Client>) {
    let error = client.unwrap().balance().await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
}

fn assert_is_config_error(client: inferstore::Result<Client>) {
    let error = client.map(drop).unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
}

#[tokio::test]
async fn an_unknown_authority_is_refused_by_default() {
    let base_url = Authority::new().serve(DEFAULT).await;
    assert_refuses(Client::builder(&base_url, "key").settings(|settings| settings.retry = once()).build())
        .await;
    assert_refuses(configured(&base_url, |http| http.user_agent("my-program/1.0"))).await;
}

/// Counts the connections to a server with a certificate of this authority.
async fn counting_server(authority: &Authority) -> (String, Arc<AtomicUsize>) {
    let inner = authority.serve(DEFAULT).await;
    let port = inner.split([':', '/']).nth(4).unwrap().parse::<u16>().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = inner.replace(&port.to_string(), &listener.local_addr().unwrap().port().to_string());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut connection, &mut server).await });
        }
    });
    (base_url, count)
}

#[tokio::test]
async fn a_refused_certificate_is_not_asked_for_again() {
    let (base_url, connections) = counting_server(&Authority::new()).await;
    let client = Client::builder(&base_url, "key").build().unwrap();
    let error = client.balance().await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)) && !error.is_retryable(), "{error:?}");
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    let error = client.download(base_url.as_str()).bytes().await.unwrap_err();
    assert!(
        matches!(&error, Error::File(error) if error.kind == FileErrorKind::CertificateRefused),
        "{error:?}"
    );
    assert_eq!((error.kind(), connections.load(Ordering::Relaxed)), (ErrorKind::NoResponse, 2));
    let waited = client.task("task").wait().await.unwrap_err();
    assert_eq!((waited.kind(), connections.load(Ordering::Relaxed)), (ErrorKind::NoResponse, 3));
}

#[tokio::test]
async fn an_added_root_is_trusted() {
    let authority = Authority::new();
    let base_url = authority.serve(DEFAULT).await;
    let root = authority.certificate;
    assert_connects(configured(&base_url, move |http| http.tls_certs_merge([root.clone()]))).await;
}

#[tokio::test]
async fn pinned_roots_are_the_only_ones() {
    let authority = Authority::new();
    let base_url = authority.serve(DEFAULT).await;
    let root = authority.certificate;
    assert_connects(configured(&base_url, move |http| http.tls_certs_only([root.clone()]))).await;
    let other = Authority::new().certificate;
    assert_refuses(configured(&base_url, move |http| http.tls_certs_only([other.clone()]))).await;
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let authority = Authority::new();
    let settings = Settings { needs_client_certificate: true, ..DEFAULT };
    let base_url = authority.serve(settings).await;
    let identity = authority.identity();
    let root = authority.certificate.clone();
    assert_refuses(configured(&base_url, move |http| http.tls_certs_merge([root.clone()]))).await;
    let root = authority.certificate;
    let client =
        configured(&base_url, move |http| http.tls_certs_merge([root.clone()]).identity(identity.clone()));
    assert_connects(client).await;
}

#[tokio::test]
async fn an_older_version_than_the_minimum_is_refused() {
    let authority = Authority::new();
    let settings = Settings { versions: ONLY_TLS12, ..DEFAULT };
    let base_url = authority.serve(settings).await;
    let root = authority.certificate.clone();
    assert_connects(configured(&base_url, move |http| http.tls_certs_merge([root.clone()]))).await;
    let root = authority.certificate;
    let client = configured(&base_url, move |http| {
        http.tls_certs_merge([root.clone()]).tls_version_min(Version::TLS_1_3)
    });
    assert_refuses(client).await;
}

#[tokio::test]
async fn invalid_certificates_are_accepted_when_told() {
    let base_url = Authority::new().serve(DEFAULT).await;
    assert_connects(configured(&base_url, |http| http.tls_danger_accept_invalid_certs(true))).await;
}

#[tokio::test]
async fn requests_go_through_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::all(format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let request = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_head(&mut connection).await
    });
    assert_refuses(configured("https://host.example/api/v1", move |http| http.proxy(proxy.clone()))).await;
    let head = request.await.unwrap();
    assert!(head.starts_with("CONNECT host.example:443 HTTP/1.1\r\n"), "{head}");
}

/// A preconfigured backend is specific to one version of one library; other types are unknown.
#[test]
fn a_setting_that_cannot_be_honoured_is_an_error() {
    let base_url = "https://host.example/api/v1";
    assert_is_config_error(configured(base_url, |http| http.tls_backend_preconfigured("no backend")));
    assert_is_config_error(
        Client::builder(base_url, "key")
            .settings(|settings| settings.user_agent = "two\nlines".to_owned())
            .build(),
    );
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    assert_is_config_error(configured(base_url, |http| {
        http.tls_version_min(Version::TLS_1_3).tls_version_max(Version::TLS_1_2)
    }));
}

/// `rustls-ring` alone needs a crypto provider in the process, which the first client installs.
#[tokio::test]
async fn other_http_clients_of_the_program_work() {
    #[cfg(all(feature = "rustls-ring", not(feature = "rustls")))]
    drop(Client::new("https://host.example/api/v1", "key").unwrap());
    let authority = Authority::new();
    let url = authority.serve(DEFAULT).await;
    let root = authority.certificate;
    let http = inferstore::reqwest::Client::builder().tls_certs_merge([root]).build().unwrap();
    assert_eq!(http.get(url).send().await.unwrap().text().await.unwrap(), BALANCE);
    let unknown = Authority::new().serve(DEFAULT).await;
    assert!(inferstore::reqwest::get(unknown).await.unwrap_err().is_connect());
}

/// Runs an ignored test of this file in a process whose system trusts only the certificates in `roots`.
#[cfg(target_os = "linux")]
async fn run_child(test: &str, roots: &str, base_url: String, other_root: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [roots_file, other_file] = [("roots.pem", roots), ("other.pem", other_root)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--ignored"]).env(CHILD_BASE_URL, base_url);
    child.env("SSL_CERT_FILE", roots_file).env_remove("SSL_CERT_DIR").env(CHILD_OTHER_ROOT, other_file);
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn child_settings() -> (String, Certificate) {
    let root = std::fs::read(std::env::var(CHILD_OTHER_ROOT).unwrap()).unwrap();
    (std::env::var(CHILD_BASE_URL).unwrap(), Certificate::from_pem(&root).unwrap())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn roots_of_the_system_count_unless_others_are_pinned() {
    let authority = Authority::new();
    let base_url = authority.serve(DEFAULT).await;
    run_child("child_with_a_trusted_server", &authority.pem, base_url, &Authority::new().pem).await;
}

#[tokio::test]
#[ignore = "runs in a child process"]
async fn child_with_a_trusted_server() {
    let (base_url, other) = child_settings();
    assert_connects(Client::builder(&base_url, "key").settings(|settings| settings.retry = once()).build())
        .await;
    let added = other.clone();
    assert_connects(configured(&base_url, move |http| http.tls_certs_merge([added.clone()]))).await;
    assert_refuses(configured(&base_url, move |http| http.tls_certs_only([other.clone()]))).await;
}

/// Loading the certificates takes most of the time of a command that sends one request without TLS.
#[cfg(all(target_os = "linux", any(feature = "rustls", feature = "rustls-ring")))]
#[tokio::test]
async fn roots_of_the_system_are_loaded_at_the_first_connection() {
    let authority = Authority::new();
    let base_url = authority.serve(DEFAULT).await;
    run_child("child_that_loads_roots_late", "", base_url, &authority.pem).await;
}

#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
#[tokio::test]
#[ignore = "runs in a child process"]
async fn child_that_loads_roots_late() {
    let (url, _) = child_settings();
    let client = Client::new("http://127.0.0.1:9/api/v1", "key").unwrap();
    // The system gets the authority after the client was built.
    std::fs::copy(std::env::var(CHILD_OTHER_ROOT).unwrap(), std::env::var("SSL_CERT_FILE").unwrap()).unwrap();
    let content = client.download(url).bytes().await.unwrap();
    assert_eq!(content.as_ref(), BALANCE.as_bytes());
}

/// A bare container has no certificates.
#[cfg(all(target_os = "linux", any(feature = "rustls", feature = "rustls-ring")))]
#[tokio::test]
async fn a_system_without_roots_speaks_http_and_trusts_what_is_added() {
    let authority = Authority::new();
    let base_url = authority.serve(DEFAULT).await;
    run_child("child_without_roots", "", base_url, &authority.pem).await;
}

#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
#[tokio::test]
#[ignore = "runs in a child process"]
async fn child_without_roots() {
    let (base_url, root) = child_settings();
    assert_is_config_error(Client::new(&base_url, "key"));
    assert_connects(configured(&base_url, move |http| http.tls_certs_merge([root.clone()]))).await;
    let plain = "http://127.0.0.1:9/api/v1";
    assert!(Client::new(plain, "key").is_ok());
    assert!(configured(plain, |http| http.user_agent("my-program/1.0")).is_ok());
}

/// A server with a self-signed certificate that is made as that of an authority, as `openssl req -x509` makes it.
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
async fn call_self_signed(
    names: &[&str],
    is_expired: bool,
    trusts_another: bool,
) -> inferstore::Result<String> {
    let own = |names: &[&str]| {
        let mut parameters =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if is_expired {
            parameters.not_after = rcgen::date_time_ymd(2001, 1, 1);
            parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        (parameters.self_signed(&key).unwrap(), key)
    };
    let (certificate, key) = own(names);
    let trusted = if trusts_another { own(names).0 } else { certificate.clone() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let base_url = serve(config).await;
    let pem = trusted.pem();
    let client = Client::builder(&base_url, "key")
        .settings(|settings| settings.retry.max_attempts = 1)
        .configure_http(move |http| inferstore::trust_certificates(http, pem.as_bytes()).unwrap())
        .build()?;
    client.balance().await.map(|balance| balance.balance.unwrap_or_default().to_string())
}

#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
#[tokio::test]
async fn a_self_signed_certificate_is_trusted_for_its_own_names_and_time() {
    assert_eq!(call_self_signed(&["localhost"], false, false).await.unwrap(), "12.50");
    for (names, is_expired, trusts_another, why) in [
        (["other.example"], false, false, "not valid for name"),
        (["localhost"], true, false, "expired"),
        (["localhost"], false, true, "CaUsedAsEndEntity"),
    ] {
        let error = call_self_signed(&names, is_expired, trusts_another).await.unwrap_err();
        assert!(error.with_causes().contains(why), "{why}: {}", error.with_causes());
    }
}
