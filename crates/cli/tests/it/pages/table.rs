//! The blocks of the pages that are neither output, nor JSON, nor documentation of a crate.

/// The check of a block.
pub(super) enum Check {
    /// The shell of its page runs the block, after these lines, which make what its reader has.
    Run(&'static str),
    /// The file with the test that runs the block, or its commands.
    By(&'static str),
    /// The reason why no test runs it.
    Not(&'static str),
}
use Check::{By, Not, Run};

const REGISTRY: Check = Not("the crates are in no registry before the first release");
const MACHINE: Check = Not("it changes users, units or programs of the machine");
const VERIFIED: Check = By("crates/cli/tests/it/docs.rs");
const INSTALLS: Check = Not("it installs the command, which the tests have built");

/// A service, and the identifier of a key instead of the one on the page.
const WITH_KEY: &str = r#"inferstore serve; placeholder isk_q3v9 "$(grep -o 'isk_[^_]*' service)""#;

/// A profile of a service elsewhere.
const WORK: &str = r#"echo '{"profiles":{"work":{"base_url":"http://127.0.0.1:1/api/v1","api_key":"isk_a_b"}}}' > profiles.json; chmod 600 profiles.json"#;

/// A service with a task of the model on the page, and the key of a node.
const EDGE_MAP: &str = r#"
inferstore serve
cat > edge-map.json <<'MODEL'
{"id": "edge-map", "name": "Edge map", "description": "Edges.", "price": "0.01", "visibility": "public",
 "input_format": {"input": {"type": "file", "position": 0, "required": true, "mime_type": ["image/*"]},
   "threshold": {"type": "int", "position": 1, "required": true, "samples": ["100"]}},
 "output_format": {"output": {"type": "file", "position": 0, "mime_type": ["image/png"]},
   "pixels": {"type": "int", "position": 1}}}
MODEL
inferstore admin model publish demo edge-map.json
inferstore run edge-map -i input=@hazy.png -i threshold=100 --detach
placeholder KEY=… "KEY=$(inferstore admin node add lab --format quiet)"
"#;

/// A function that needs no package.
const WITHOUT_PACKAGES: &str = r#"
: > soft-focus/requirements.txt
cat > soft-focus/model.py <<'PYTHON'
import shutil
from worker import serve

def run(inputs, folder):
    shutil.copy("../hazy.png", folder / "result.png")
    return {"result": "result.png", "note": inputs["radius"]}

serve({"soft-focus": run})
PYTHON
"#;

/// The folder of a model on the machine of the service, for another account.
const OTHER_MODEL: &str = r#"
cd soft-focus
ln -s ../inferstore-data .
inferstore admin account add lena
jq '.id = "softer-focus"' model.json > other.json && mv other.json model.json
"#;

/// Page, beginning of the first line, check.
pub(super) const BLOCKS: &[(&str, &str, Check)] = &[
    ("README.md", "cargo run -p inferstore-cli -- demo", By("crates/cli/tests/it/commands.rs")),
    ("README.md", "inferstore serve", Run("mkdir inferstore-demo; cp hazy.png inferstore-demo")),
    ("README.md", "use inferstore::", By("tests/it/readme.rs")),
    ("CONTRIBUTING.md", "cargo xtask scaffold operation", By("xtask/tests/it/scaffold.rs")),
    ("crates/api/README.md", "cargo add inferstore-api", REGISTRY),
    ("crates/batch/README.md", "cargo add", REGISTRY),
    ("crates/client/README.md", "cargo add inferstore", REGISTRY),
    ("crates/client/README.md", "cargo add inferstore --no-default-features", REGISTRY),
    ("crates/openapi-impact/README.md", "cargo install", INSTALLS),
    (
        "crates/openapi-impact/README.md",
        "- uses: actions/checkout",
        By("crates/openapi-impact/tests/command.rs"),
    ),
    ("crates/profiles/README.md", "cargo add", REGISTRY),
    ("crates/testing/README.md", "cargo add", REGISTRY),
    ("crates/testing/README.md", "use inferstore_service::", By("tests/it/client/on_the_service/mod.rs")),
    ("docs/admin-http.md", "curl --unix-socket", Run(WITH_KEY)),
    ("docs/admin.md", "inferstore admin account add", Run(WITH_KEY)),
    ("docs/admin.md", "inferstore admin model describe", Run("")),
    (
        "docs/admin.md",
        "inferstore admin debit",
        Run("inferstore admin account resume lena; inferstore admin credit lena 2525"),
    ),
    ("docs/bucket.md", "export AWS_ACCESS_KEY_ID", Run("")),
    ("docs/bucket.md", "aws s3api", Not("it changes a bucket of a provider")),
    ("docs/cluster.md", "export INFERSTORE_DATABASE", By(".ci/cluster")),
    ("docs/cluster.md", "defaults", By(".ci/cluster")),
    ("docs/cli.md", "", By("crates/cli/tests/it/pages/mod.rs")),
    ("docs/console.md", "inferstore serve", Run(WORK)),
    (
        "docs/controls.md",
        "CONTROLS=$INFERSTORE_CONTROLS_URL",
        Run("inferstore serve --ephemeral --controls-port 0; eval \"$(grep CONTROLS service)\""),
    ),
    ("docs/controls.md", "control", Run("")),
    (
        "docs/deployment.md",
        "sha256sum",
        Not("it needs the files of a release, which tools/release/try checks"),
    ),
    ("docs/deployment.md", "cargo build --profile dist", By("tools/release/build")),
    ("docs/deployment.md", "[Unit]", By("tools/release/try")),
    ("docs/deployment.md", "INFERSTORE_OPTIONS=", MACHINE),
    ("docs/deployment.md", "useradd", MACHINE),
    (
        "docs/deployment.md",
        "sudo -u inferstore",
        Not("it needs the user of the unit; docs/admin.md runs the same commands"),
    ),
    ("docs/deployment.md", "docker load", By("tools/release/try-image")),
    ("docs/deployment.md", "INFERSTORE_BASE_URL=https://api.example.com", Not("it needs a proxy with TLS")),
    ("docs/deployment.md", "openssl req", Not("it needs the proxy that uses the certificate")),
    ("docs/deployment.md", "upstream inferstore_api", Not("the test machine has no nginx")),
    ("docs/deployment.md", "api.example.com {", Not("the test machine has no Caddy")),
    ("docs/deployment.md", "install --directory", MACHINE),
    ("docs/deployment.md", "# /etc/systemd/system/inferstore-daily.service", MACHINE),
    ("docs/deployment.md", "# /etc/systemd/system/inferstore-daily-failed.service", MACHINE),
    ("docs/deployment.md", "# /etc/systemd/system/inferstore-daily.timer", MACHINE),
    ("docs/deployment.md", "rsync", Not("it needs a second machine")),
    ("docs/deployment.md", "systemctl stop", MACHINE),
    ("docs/deployment.md", "sudo -u inferstore inferstore admin backup", MACHINE),
    ("docs/mcp.md", "inferstore mcp", Run("inferstore serve; mkdir pictures")),
    ("docs/monitoring.md", "curl --fail", Run("inferstore serve")),
    ("docs/monitoring.md", "# prometheus.yml", By(".ci/monitoring")),
    ("docs/monitoring.md", "journalctl", MACHINE),
    ("docs/monitoring.md", "inferstore serve --otlp-endpoint", Not("it needs a build with the feature otel")),
    ("docs/moving.md", "# 1. Stop the service", MACHINE),
    ("docs/moving.md", "inferstore admin backup", MACHINE),
    ("docs/node-protocol.md", "NODES=", Run(EDGE_MAP)),
    (
        "docs/node-protocol.md",
        "curl -s \"$NODES/nodes/v1/$NODE/lease\"",
        Run("NODE=$(jq -r .data.node printed)"),
    ),
    (
        "docs/node-protocol.md",
        "curl -s -X POST \"$NODES/nodes/v1/$NODE/tasks/$TASK/$ATTEMPT/heartbeat",
        Run("TASK=$(jq -r .data.task printed) ATTEMPT=$(jq -r .data.attempt printed)"),
    ),
    ("docs/node-protocol.md", "curl -s -X PUT \"$NODES/nodes/v1/$NODE/tasks/$TASK/$ATTEMPT/log", Run("")),
    ("docs/node-protocol.md", "curl -s -T edges.png", Run("cp hazy.png edges.png")),
    (
        "docs/node-protocol.md",
        "curl -s \"$NODES/nodes/v1/$NODE/tasks/$TASK/$ATTEMPT/finish\"",
        Run(r#"placeholder '"output": "…"' "\"output\": $(jq .data.url printed)""#),
    ),
    ("docs/node-protocol.md", "curl -s -X POST \"$NODES/nodes/v1/$NODE/goodbye\"", Run("")),
    (
        "docs/nodes.md",
        "inferstore serve",
        Run(
            r#"cp -r "$REPOSITORY/crates/node/examples" . && mkdir -p crates/node && mv examples crates/node"#,
        ),
    ),
    ("docs/nodes.md", "import json", By("crates/node/src/runners/command.rs")),
    ("docs/nodes.md", "#!/bin/sh", By("crates/node/src/runners/command.rs")),
    ("docs/nodes.md", "cargo install", Not("it needs a service with TLS; tests/it/nodes runs the program")),
    ("docs/own-model.md", "inferstore serve", Run("")),
    ("docs/own-model.md", "inferstore model init", Run("")),
    ("docs/own-model.md", "def run(", By("crates/cli/tests/it/docs.rs")),
    ("docs/own-model.md", "inferstore node run", Run(WITHOUT_PACKAGES)),
    ("docs/own-model.md", "inferstore models show", Run("")),
    ("docs/own-model.md", "inferstore models code", Run("mkdir src")),
    ("docs/own-model.md", "mod soft_focus", By("crates/cli/tests/it/code.rs")),
    ("docs/own-model.md", "inferstore admin model publish", Run(OTHER_MODEL)),
    (
        "docs/own-model.md",
        "INFERSTORE_NODE_KEY=",
        Not("it needs a service with TLS; tests/it/nodes runs nodes with keys"),
    ),
    ("docs/pictures.md", "cargo install", INSTALLS),
    ("docs/pictures.md", "inferstore serve", Run("")),
    ("docs/pictures.md", "inferstore models list", Run("mkdir incoming")),
    ("docs/testing.md", "pip install", By("tests/contract/src/packages.rs")),
    ("docs/testing.md", "from decimal", By("sdk/python/tests/test_testing.py")),
    ("docs/testing.md", "import os", By("sdk/python/tests/test_testing.py")),
    ("docs/testing.md", "npm install", By("tests/contract/src/packages.rs")),
    ("docs/testing.md", "import ", By("sdk/typescript/test/testing.test.ts")),
    ("docs/testing.md", "cargo add", Not("it changes a project outside of the checkout")),
    ("docs/testing.md", "use inferstore_service::", By("tests/it/readme.rs")),
    ("docs/testing.md", "- uses: OWNER/inferstore", By("crates/cli/tests/it/action.rs")),
    ("docs/without-root.md", "# ~/.config/systemd/user/inferstore.service", VERIFIED),
    ("docs/without-root.md", "mkdir -p", MACHINE),
    ("docs/without-root.md", "# ~/.config/systemd/user/inferstore-daily.service", VERIFIED),
    ("docs/without-root.md", "# ~/.config/systemd/user/inferstore-daily.timer", VERIFIED),
    ("docs/without-root.md", "pid nginx.pid", Not("the test machine has no nginx")),
    ("docs/without-root.md", "nginx -p", Not("the test machine has no nginx")),
    ("docs/without-root.md", "INFERSTORE_BASE_URL=https://localhost", Not("the test machine has no nginx")),
    ("docs/without-root.md", "# ~/.config/systemd/user/inferstore-nginx.service", VERIFIED),
    ("docs/troubleshooting.md", "inferstore doctor", Run("inferstore serve")),
    ("openapi/README.md", "inferstore serve --ephemeral", Run("")),
    ("sdk/python/README.md", "pip install", By("tests/contract/src/packages.rs")),
    ("sdk/python/README.md", "cargo install", INSTALLS),
    ("sdk/python/README.md", "from ", By("sdk/python/tests/test_readme.py")),
    ("sdk/python/README.md", "import ", By("sdk/python/tests/test_readme.py")),
    ("sdk/typescript/README.md", "npm install", By("tests/contract/src/packages.rs")),
    ("sdk/typescript/README.md", "cargo install", INSTALLS),
    ("sdk/typescript/README.md", "import ", By("sdk/typescript/test/readme.test.ts")),
];
