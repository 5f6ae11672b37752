//! Object storage: judges uploads by the targets that were issued, and serves files.

use std::ops::Range;

use super::answer::Answer;
use super::clock::Stamp;
use super::content::{Content, Received};
use super::form;
use super::http::Head;
use super::state::Request;
use super::storage::{Storage, StoredFile, Target};
use super::uri;

/// One request of step 2 that arrived whole, accepted or not.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) method: String,
    /// As sent, with their names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) is_chunked: bool,
    pub(crate) content_length: Option<u64>,
    /// The names of the fields of a form, in their order, with `file` among them.
    pub(crate) fields: Vec<String>,
    /// The file itself, without the form around it.
    pub(crate) file: Received,
    pub(crate) stored: bool,
    values: Vec<(String, String)>,
}

impl Storage {
    /// Writes an upload down, and returns its place.
    pub(super) fn note_upload(&mut self, request: &Request) -> usize {
        let head = &request.head;
        let mut upload = Upload {
            method: head.method.clone(),
            headers: head.headers.clone(),
            is_chunked: head.is_chunked(),
            content_length: head.content_length(),
            fields: Vec::new(),
            file: request.body.clone(),
            stored: false,
            values: Vec::new(),
        };
        if head.method == "POST" {
            upload.file = Received::keeping_first(self.kept);
            let content_type = head.header("content-type").unwrap_or_default();
            for field in form::fields(content_type, &request.body.first).unwrap_or_default() {
                // Whatever stands behind the file does not count.
                if field.name == "file" {
                    upload.file.push(field.content);
                } else if !upload.fields.iter().any(|name| name == "file") {
                    let value = String::from_utf8_lossy(field.content).into_owned();
                    upload.values.push((field.name.clone(), value));
                }
                upload.fields.push(field.name);
            }
        }
        self.uploads.push(upload);
        self.uploads.len() - 1
    }

    pub(super) fn accept_upload(&mut self, request: &Request, index: usize, now: Stamp) -> Answer {
        let upload = &self.uploads[index];
        let target = match self.judge(request, upload) {
            Ok(target) => target,
            Err(refusal) => return refusal,
        };
        let (key, mime) = (target.key.clone(), target.mime.clone());
        let content = upload.file.is_kept().then(|| Content::from(upload.file.first.clone()));
        let (length, fingerprint) = (upload.file.length, upload.file.fingerprint);
        let code = if target.form.is_some() { 204 } else { 200 };
        self.put(&key, &mime, (length, fingerprint), content, now);
        self.uploads[index].stored = true;
        Answer::empty(code).with_header("etag", &format!("\"{fingerprint}\""))
    }

    /// The target that the upload was made for, if it is as promised.
    fn judge(&self, request: &Request, upload: &Upload) -> Result<&Target, Answer> {
        let is_form = upload.method == "POST";
        if upload.content_length.is_none() {
            return Err(if upload.is_chunked && !is_form {
                Answer::storage_error(501, "NotImplemented", "a header implies what is not implemented")
            } else {
                Answer::storage_error(411, "MissingContentLength", "the Content-Length header is required")
            });
        }
        let denied = |message| Err(Answer::storage_error(403, "AccessDenied", message));
        let value = |name: &str| {
            upload
                .values
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str())
        };
        let (signature, key, mime) = if is_form {
            (value("x-amz-signature").map(str::to_owned), value("key"), value("Content-Type"))
        } else {
            let signature = uri::query_value(request.head.query(), "X-Amz-Signature");
            (signature, Some(request.subject.as_str()), request.head.header("content-type"))
        };
        let Some(signature) = signature else { return denied("Access denied") };
        let issued = self.targets.iter().find(|target| target.signature == signature);
        let Some(target) = issued.filter(|target| {
            target.form.is_some() == is_form && key == Some(&target.key) && mime == Some(&target.mime)
        }) else {
            return Err(Answer::storage_error(403, "SignatureDoesNotMatch", "the signature does not match"));
        };
        if target.is_expired {
            return denied("Request has expired");
        }
        let mut promised = target.form.iter().flatten();
        if promised.any(|(name, promised)| value(name) != Some(promised)) {
            return denied("Invalid according to Policy");
        }
        if is_form && upload.fields.last().is_none_or(|last| last != "file") {
            return Err(Answer::storage_error(400, "InvalidArgument", "the file must be the last field"));
        }
        if upload.file.length != target.size {
            return Err(Answer::storage_error(400, "EntityTooLarge", "the size is not the declared one"));
        }
        Ok(target)
    }

    pub(super) fn download(&self, request: &Request) -> Answer {
        let Some(file) = self.files.iter().find(|file| file.key == request.subject) else {
            return Answer::storage_error(404, "NoSuchKey", "the key does not exist");
        };
        let Some(content) = &file.content else {
            return Answer::storage_error(410, "NotKept", "the test did not want this content to be kept");
        };
        match wanted_range(&request.head, file) {
            None => file_answer(200, file, content.clone()),
            Some(Some(range)) => {
                let span = format!("bytes {}-{}/{}", range.start, range.end - 1, file.size);
                file_answer(206, file, content.part(range)).with_header("content-range", &span)
            }
            Some(None) => Answer::storage_error(416, "InvalidRange", "the range is not satisfiable")
                .with_header("content-range", &format!("bytes */{}", file.size)),
        }
    }
}

/// The refusal of a request that brings an authorization of its own beside the presigned one.
pub(super) fn refuse_foreign_authorization(head: &Head) -> Option<Answer> {
    let foreign = ["x-api-key", "authorization"].into_iter().find(|name| head.header(name).is_some())?;
    let message = format!("the header {foreign} does not belong here");
    Some(Answer::storage_error(400, "InvalidArgument", &message))
}

fn file_answer(code: u16, file: &StoredFile, content: Content) -> Answer {
    Answer::new(code, &file.mime, content)
        .with_header("etag", &format!("\"{}\"", file.fingerprint))
        .with_header("accept-ranges", "bytes")
}

/// None when the whole file is wanted, `Some(None)` when a range is that the file does not have.
fn wanted_range(head: &Head, file: &StoredFile) -> Option<Option<Range<u64>>> {
    let etag = format!("\"{}\"", file.fingerprint);
    if head.header("if-range").is_some_and(|condition| condition != etag) {
        return None;
    }
    let (from, to) = head.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => from..file.size.min(to.saturating_add(1)),
        (Ok(from), Err(_)) => from..file.size,
        (Err(_), Ok(last)) => file.size.saturating_sub(last)..file.size,
        (Err(_), Err(_)) => return None,
    };
    Some((!range.is_empty()).then_some(range))
}
