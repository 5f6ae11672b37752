//! CORS of a bucket: pages of the allowed origins may upload to the bucket and read from it.

use crate::config::CorsOrigin;

use super::bucket::{Bucket, S3_NAMESPACE};

/// Sets the CORS configuration of a bucket without one. A refusal is only logged: only callers in browsers need it.
pub(super) async fn ensure(bucket: &Bucket, origins: &[CorsOrigin]) {
    if !bucket.config.is_direct {
        return;
    }
    let xml = configuration(origins);
    let done = match bucket.cors().await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => bucket.set_cors(&xml).await,
        Err(cause) => Err(cause),
    };
    if let Err(cause) = done {
        tracing::warn!(%cause, "pages in browsers cannot use the bucket until it has this CORS configuration: {xml}");
    }
}

/// Returns the required CORS configuration. Downloads begin at a URL of the service and are redirected, so browsers
/// send the origin `null`: every origin may read, because a signature protects each request. Ceph's gateway applies the
/// first rule with a matching origin, whatever the method, so that this rule allows everything.
fn configuration(origins: &[CorsOrigin]) -> String {
    let origin = |origin: &CorsOrigin| {
        let text = origin.0.to_str().unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;");
        format!("<AllowedOrigin>{text}</AllowedOrigin>")
    };
    let uploads: String = origins.iter().map(origin).collect();
    let rest = "<AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader>\
                <ExposeHeader>Location</ExposeHeader><ExposeHeader>Content-Range</ExposeHeader>\
                <ExposeHeader>Accept-Ranges</ExposeHeader><MaxAgeSeconds>3600</MaxAgeSeconds>";
    let read = "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>\
                <AllowedMethod>HEAD</AllowedMethod>";
    let methods = "<AllowedMethod>GET</AllowedMethod><AllowedMethod>HEAD</AllowedMethod>\
                   <AllowedMethod>POST</AllowedMethod><AllowedMethod>PUT</AllowedMethod>";
    let write = if uploads.is_empty() {
        String::new()
    } else {
        format!("<CORSRule>{uploads}{methods}{rest}</CORSRule>")
    };
    format!(
        "<CORSConfiguration xmlns=\"{S3_NAMESPACE}\">{write}{read}{rest}</CORSRule>\
         </CORSConfiguration>"
    )
}
