//! Process of the proxy `tests/contract/proxy.mjs`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::service::Service;
use crate::tools::absolute;

const SCRIPT: &str = "tests/contract/proxy.mjs";
const DOCUMENT: &str = "target/publish/inferstore.json";

pub(crate) struct Proxy {
    process: Child,
    output: BufReader<ChildStdout>,
    url: String,
}

#[derive(Deserialize)]
struct Listening {
    url: String,
}

impl Proxy {
    pub(crate) fn start(root: &Path, service: &Service) -> Result<Self> {
        let mut process = Command::new("node")
            .arg(absolute(&root.join(SCRIPT))?)
            .arg(absolute(&root.join(DOCUMENT))?)
            .arg(&service.base_url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the proxy, which needs Node.js")?;
        let output = process.stdout.take().context("the proxy has no output")?;
        let mut proxy = Self { process, output: BufReader::new(output), url: String::new() };
        proxy.url = proxy.line::<Listening>()?.url;
        Ok(proxy)
    }

    pub(crate) fn base_url(&self, service: &Service, mode: &str) -> String {
        let after_scheme = service.base_url.split_once("://").map_or("", |(_, rest)| rest);
        let path = after_scheme.split_once('/').map_or("", |(_, path)| path);
        format!("{}/{mode}/{path}", self.url)
    }

    pub(crate) fn stop(mut self) -> Result<BTreeMap<String, u64>> {
        drop(self.process.stdin.take());
        self.line()
    }

    fn line<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("cannot read from the proxy")?;
        ensure!(!line.is_empty(), "the proxy ended");
        serde_json::from_str(&line).with_context(|| format!("the proxy wrote {line:?}"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The proxy exits when its input ends.
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
