//! Three processes of `inferstore serve` behind haproxy, over a PostgreSQL database and a bucket prefix of
//! their own. `.ci/cluster` starts the engines, and passes their addresses in the environment.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use inferstore_service::{Config, S3Config, Service};
use tempfile::TempDir;

pub(crate) const PROCESSES: usize = 3;

pub(crate) const API_KEY: &str = "isk_cluster_test";

const START_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone)]
pub(crate) struct Engines {
    /// PostgreSQL URL without the database name. It may list a standby beside the primary.
    postgres: String,
    pub(crate) objects: String,
}

impl Engines {
    pub(crate) fn of_this_run() -> Option<Self> {
        let postgres = env::var("INFERSTORE_TEST_CLUSTER").ok()?;
        Some(Self { postgres, objects: variable("INFERSTORE_TEST_OBJECTS") })
    }

    fn create_database(&self, name: &str) -> String {
        let url = |name: &str| format!("{}/{name}?target_session_attrs=read-write", self.postgres);
        query(&url("postgres"), &format!("CREATE DATABASE {name}"));
        url(name)
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; .ci/cluster sets it"))
}

pub(crate) fn query(database: &str, sql: &str) -> String {
    let output = Command::new("psql").args([database, "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql]).output();
    let output = output.expect("these tests need psql");
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns a port that neither another test of this program nor the system uses.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (id() * 61 % 8_000) as u16;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 4_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) database: String,
    objects: String,
    settings: Vec<String>,
    ports: [[u16; 2]; PROCESSES],
    processes: [Option<Child>; PROCESSES],
    balancer: Option<Child>,
    pub(crate) base_url: String,
    pub(crate) storage_url: String,
}

impl Cluster {
    pub(crate) fn start(engines: &Engines, settings: &[String]) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let name = format!("it_{}_{}", id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports = [(); PROCESSES].map(|()| [port(), port()]);
        let fronts = [port(), port()];
        let mut cluster = Self {
            database: engines.create_database(&name),
            objects: engines.objects.replacen('?', &format!("/{name}?"), 1),
            settings: settings.to_vec(),
            ports,
            processes: [const { None }; PROCESSES],
            balancer: None,
            base_url: format!("http://127.0.0.1:{}/api/v1", fronts[0]),
            storage_url: format!("http://127.0.0.1:{}", fronts[1]),
            folder,
        };
        // All at once, like a supervisor.
        let started: Vec<Child> = (0..PROCESSES).map(|number| cluster.spawn(number)).collect();
        for (number, mut process) in started.into_iter().enumerate() {
            assert!(is_ready(&mut process), "process {number} did not start: {}", cluster.log(number));
            cluster.processes[number] = Some(process);
        }
        // The balancer considers servers healthy until a check fails.
        cluster.balancer = Some(balance(cluster.folder.path(), fronts, ports));
        for front in fronts {
            await_listener(front);
        }
        cluster
    }

    fn spawn(&self, number: usize) -> Child {
        let [api, storage] = self.ports[number].map(|port| port.to_string());
        let program = Path::new(env!("CARGO_BIN_EXE_service-under-test")).with_file_name("inferstore");
        Command::new(&program)
            .args(["serve", "--ready-json", "--no-console", "--port", &api, "--storage-port", &storage])
            .args(["--storage-url", &self.storage_url, "--objects", &self.objects])
            .arg("--data-dir")
            .arg(self.folder.path().join(number.to_string()))
            .args(&self.settings)
            .env("INFERSTORE_DATABASE", &self.database)
            .env("INFERSTORE_FIRST_KEY", API_KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(append(&self.log_file(number)))
            .spawn()
            .unwrap_or_else(|cause| panic!("{}: {cause}; .ci/cluster builds it", program.display()))
    }

    pub(crate) fn kill_and_restart(&mut self, number: usize) {
        self.kill(number);
        let began = Instant::now();
        loop {
            let mut process = self.spawn(number);
            if is_ready(&mut process) {
                self.processes[number] = Some(process);
                return;
            }
            end(&mut process);
            // A process cannot start without its engines.
            assert!(began.elapsed() < START_TIMEOUT, "process {number}: {}", self.log(number));
            sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn pause(&self, number: usize, time: Duration) {
        let Some(process) = &self.processes[number] else { return };
        let signal = |signal: &str| {
            let sent = Command::new("kill").args([signal, &process.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "process {number} has ended");
        };
        signal("-STOP");
        sleep(time);
        signal("-CONT");
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.processes[number].take() {
            end(&mut process);
        }
    }

    pub(crate) fn ended(&mut self) -> Vec<usize> {
        let has_ended = |process: &mut Option<Child>| {
            process.as_mut().is_none_or(|process| process.try_wait().is_ok_and(|status| status.is_some()))
        };
        (0..PROCESSES).filter(|number| has_ended(&mut self.processes[*number])).collect()
    }

    pub(crate) fn log(&self, number: usize) -> String {
        fs::read_to_string(self.log_file(number)).unwrap_or_default()
    }

    fn log_file(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number}.log"))
    }

    /// Starts one more process inside this program, for its operator, with the role `jobs` only.
    pub(crate) async fn operator(&self) -> Service {
        let keys = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
        let mut config = Config::ephemeral();
        config.database = Some(self.database.parse().expect("the URL of a database"));
        config.objects = Some(S3Config::new(&self.objects, &keys.0, &keys.1).expect("the URL of a bucket"));
        config.roles = "jobs".parse().expect("a role");
        config.storage_url = Some(self.storage_url.clone());
        Service::start(config).await.expect("the operator's process starts")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..PROCESSES {
            self.kill(number);
        }
        if let Some(balancer) = &mut self.balancer {
            end(balancer);
        }
    }
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

fn append(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).expect("the folder is ours")
}

fn is_ready(process: &mut Child) -> bool {
    let mut line = String::new();
    let output = process.stdout.take().expect("its output is piped");
    let read = BufReader::new(output).read_line(&mut line).is_ok();
    read && line.contains("\"ready\"")
}

fn await_listener(port: u16) {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < START_TIMEOUT, "haproxy does not listen on {port}");
        sleep(Duration::from_millis(5));
    }
}

/// Starts haproxy. It retries a request on another process only after a failed connect: a sent request may
/// have been executed.
fn balance(folder: &Path, fronts: [u16; 2], ports: [[u16; 2]; PROCESSES]) -> Child {
    let mut config = "global\n  maxconn 4000\n\
        defaults\n  mode http\n  timeout connect 2s\n  timeout client 75s\n  timeout server 75s\n\
        \x20 retries 3\n  option redispatch 1\n  retry-on conn-failure\n\
        \x20 default-server check inter 250ms fall 1 rise 1\n"
        .to_owned();
    for (side, front) in fronts.iter().enumerate() {
        config += &format!("listen side{side}\n  bind 127.0.0.1:{front}\n  balance roundrobin\n");
        for (number, ports) in ports.iter().enumerate() {
            config += &format!("  server process{number} 127.0.0.1:{}\n", ports[side]);
        }
    }
    let file = folder.join("haproxy.cfg");
    fs::write(&file, config).expect("the folder is ours");
    let log = append(&folder.join("haproxy.log"));
    Command::new("haproxy")
        .args(["-db", "-f"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("these tests need haproxy")
}
