//! Upload as separate parts, each of which can be changed before sending.

use serde_json::Value;

use super::super::raw::{self, Reply};

const BOUNDARY: &str = "frontier";

#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(super) endpoint: String,
    pub(crate) download_url: String,
    pub(super) fields: Vec<(String, String)>,
}

impl Target {
    pub(crate) fn read(data: &Value) -> Self {
        let text = |name: &str| data[name].as_str().expect("a target is made of texts").to_owned();
        let fields: Value = serde_json::from_str(&text("fields")).expect("fields are JSON");
        let fields = fields.as_object().into_iter().flatten();
        let fields =
            fields.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        Self { endpoint: text("endpoint"), download_url: text("download_url"), fields: fields.collect() }
    }

    pub(crate) fn upload(&self, file: Vec<u8>) -> Upload {
        let is_put = self.endpoint.contains("X-Amz-Algorithm");
        let (host, rest) = raw::split(&self.endpoint);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Upload {
            host: host.to_owned(),
            method: if is_put { "PUT" } else { "POST" },
            path: path.to_owned(),
            query: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            headers: if is_put {
                self.fields.clone()
            } else {
                vec![("content-type".to_owned(), format!("multipart/form-data; boundary={BOUNDARY}"))]
            },
            form: (!is_put).then(|| UploadForm { fields: self.fields.clone(), after: Vec::new() }),
            file,
            length: Length::True,
            cut: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct UploadForm {
    pub(super) fields: Vec<(String, String)>,
    pub(super) after: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Length {
    True,
    Lie(i64),
    Chunked,
    Missing,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Upload {
    pub(super) host: String,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) form: Option<UploadForm>,
    pub(super) file: Vec<u8>,
    pub(super) length: Length,
    pub(super) cut: Option<usize>,
}

impl Upload {
    pub(super) fn is_form(&self) -> bool {
        self.form.is_some()
    }

    pub(super) fn signed(&mut self) -> &mut Vec<(String, String)> {
        match &mut self.form {
            Some(form) => &mut form.fields,
            None => &mut self.query,
        }
    }

    fn body(&self) -> Vec<u8> {
        let Some(form) = &self.form else { return self.file.clone() };
        let part = |(name, value): &(String, String)| {
            format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let mut body: String = form.fields.iter().map(part).collect();
        body +=
            &format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
        let after: String = form.after.iter().map(part).collect();
        let end = format!("\r\n{after}--{BOUNDARY}--\r\n");
        [body.as_bytes(), &self.file, end.as_bytes()].concat()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = self.body();
        let query: Vec<_> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let mut head = format!("{} {}{query} HTTP/1.1\r\n", self.method, self.path);
        head += &format!("host: {}\r\nconnection: close\r\n", self.host);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.length {
            Length::True => head += &format!("content-length: {}\r\n", body.len()),
            Length::Lie(by) => {
                let reported = i64::try_from(body.len()).unwrap_or(i64::MAX).saturating_add(by).max(0);
                head += &format!("content-length: {reported}\r\n");
            }
            Length::Chunked => {
                head += "transfer-encoding: chunked\r\n";
                body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
            }
            Length::Missing => {}
        }
        head += "\r\n";
        [head.into_bytes(), body].concat()
    }

    pub(crate) async fn send(&self) -> Option<Reply> {
        let mut bytes = self.bytes();
        if let Some(cut) = self.cut {
            bytes.truncate(cut);
        }
        let and_no_more = self.cut.is_some() || self.length != Length::True;
        raw::exchange(&self.host, &bytes, and_no_more).await
    }
}
