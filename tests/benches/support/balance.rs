//! One call, `GET balance`, by the client, the raw client and plain reqwest; and a server for it.

use inferstore::{ApiKey, Client};
use inferstore_api::Envelope;
use inferstore_api::types::AccountBalance;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub(crate) const BODY: &str = r#"{"status":"success","message":"ok","data":{"balance":"128.507300000000000001","free_balance":"5.00","debt":"0","earnings":"17.25","wallet_address":"0x00000000000000000000000000000000000000a1"}}"#;

pub(crate) fn serve() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    listener.set_nonblocking(true).expect("a socket can be asked not to block");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("it does not block");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream));
            }
        });
    });
    format!("http://{address}/api/v1")
}

async fn answer(mut stream: tokio::net::TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    let answer = format!("{head} {}\r\n\r\n{BODY}", BODY.len());
    let mut buffer = [0; 4096];
    let mut seen = Vec::new();
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        seen.extend_from_slice(&buffer[..length]);
        if seen.ends_with(b"\r\n\r\n") {
            seen.clear();
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

pub(crate) enum Way {
    Client(Client),
    Raw(inferstore_api::Client),
    ByHand { http: reqwest::Client, base_url: String },
}

impl Way {
    pub(crate) fn client(base_url: &str) -> Self {
        Self::Client(Client::new(base_url, "key").expect("a client"))
    }

    pub(crate) fn raw(base_url: &str) -> Self {
        Self::Raw(inferstore_api::Client::new(base_url, ApiKey::new("key")).expect("a client"))
    }

    pub(crate) fn by_hand(builder: reqwest::ClientBuilder, base_url: &str) -> Self {
        // Same length as the client's.
        let user_agent = concat!("inferstore-rust/", env!("CARGO_PKG_VERSION"));
        let http = builder.user_agent(user_agent).build().expect("a client");
        Self::ByHand { http, base_url: base_url.to_owned() }
    }

    pub(crate) async fn call(&self) {
        match self {
            Self::Client(client) => drop(client.balance().await.expect("an answer")),
            Self::Raw(client) => drop(client.get_balance().await.expect("an answer")),
            Self::ByHand { http, base_url } => by_hand(http, base_url).await,
        }
    }
}

async fn by_hand(http: &reqwest::Client, base_url: &str) {
    let request = http
        .get(format!("{base_url}/api-key/balance"))
        .header("accept", "application/json")
        .header("x-api-key", "key");
    let answer = request.send().await.expect("an answer").error_for_status().expect("a success");
    let balance: Envelope<AccountBalance> = answer.json().await.expect("a balance");
    assert!(balance.is_success());
}
