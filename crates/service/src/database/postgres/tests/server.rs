//! PostgreSQL server for the tests of this process, in a temporary folder that is deleted when the process ends.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use std::sync::Arc;
use tokio_postgres::NoTls;

use super::super::PostgresDatabase;
use crate::database::Database;
use crate::database::conformance::Engine;

/// Runs until its input ends, which happens at the end of the test process in any case.
const SCRIPT: &str = r#"
    set -e
    folder=$(mktemp -d /tmp/inferstore-postgres-XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    "$1/initdb" -D "$folder/data" -U inferstore -A trust -E UTF8 --locale=C --no-sync >"$folder/log" 2>&1
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
        -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost \
        -keyout "$folder/server.key" -out "$folder/server.crt" 2>>"$folder/log"
    "$1/postgres" -D "$folder/data" -k "$folder" -p "$2" -c listen_addresses=127.0.0.1 -c ssl=on \
        -c ssl_cert_file="$folder/server.crt" -c ssl_key_file="$folder/server.key" \
        -c fsync="${INFERSTORE_TEST_FSYNC:-off}" -c max_connections=400 >>"$folder/log" 2>&1 </dev/null &
    server=$!
    until "$1/pg_isready" -q -h "$folder" -p "$2"; do
        kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }
        sleep 0.05
    done
    echo "$folder"
    read -r _ || true
    kill -INT "$server"
    wait "$server" || true
"#;

pub(super) struct Server {
    folder: String,
    pub(super) port: u16,
    _script: Child,
    _alive: ChildStdin,
}

impl Server {
    pub(super) fn process(&self) -> u32 {
        let file = std::fs::read_to_string(format!("{}/data/postmaster.pid", self.folder)).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    pub(super) fn certificate(&self) -> String {
        format!("{}/server.crt", self.folder)
    }

    pub(super) fn tls_url(&self, host: &str) -> String {
        format!("postgres://inferstore@{host}:{}/postgres?sslmode=require", self.port)
    }
}

pub(super) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let programs = programs();
        let mut command = as_postgres("sh");
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        command.args(["-c", SCRIPT, "sh"]).arg(&programs).arg(port.to_string()).current_dir("/tmp");
        // The script outlives a signal to the process group of the tests, and cleans up.
        command.process_group(0);
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let alive = script.stdin.take().unwrap();
        let mut folder = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut folder).unwrap();
        assert!(!folder.is_empty(), "PostgreSQL in {} did not start", programs.display());
        Server { folder: folder.trim().to_owned(), port, _script: script, _alive: alive }
    })
}

/// Returns a command that may start PostgreSQL, which refuses to run as root.
pub(super) fn as_postgres(program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

/// Returns the folder of `initdb` and `postgres`. Panics without them, because a skipped test would prove nothing.
pub(super) fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os("INFERSTORE_TEST_POSTGRES") {
        return folder.into();
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path().join("bin")).max();
    newest.expect("these tests need PostgreSQL; INFERSTORE_TEST_POSTGRES names the folder of its programs")
}

pub(super) struct Empty {
    name: String,
    created: tokio::sync::OnceCell<()>,
}

impl Empty {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { name, created: tokio::sync::OnceCell::new() }
    }

    pub(super) async fn url(&self) -> String {
        self.created.get_or_init(|| execute("postgres", format!("CREATE DATABASE {}", self.name))).await;
        url(&self.name)
    }

    pub(super) async fn tcp_url(&self, port: u16) -> String {
        self.url().await;
        format!("postgres://inferstore@127.0.0.1:{port}/{}", self.name)
    }

    pub(super) fn uncreated_url(&self) -> String {
        url(&self.name)
    }

    pub(super) async fn process(&self) -> PostgresDatabase {
        PostgresDatabase::open(&self.url().await).await.unwrap()
    }

    pub(super) async fn execute(&self, sql: &str) {
        execute(&self.name, sql.to_owned()).await;
    }
}

fn url(database: &str) -> String {
    let Server { folder, port, .. } = server();
    format!("postgres://inferstore@/{database}?host={folder}&port={port}")
}

async fn execute(database: &str, sql: String) {
    let config: tokio_postgres::Config = url(database).parse().unwrap();
    let (client, connection) = config.connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(&sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

#[async_trait]
impl Engine for Empty {
    fn another(&self) -> Self {
        Self::new()
    }

    async fn open(&self) -> Arc<dyn Database> {
        Arc::new(self.process().await)
    }

    async fn execute(&self, sql: &str) {
        self.execute(sql).await;
    }
}
