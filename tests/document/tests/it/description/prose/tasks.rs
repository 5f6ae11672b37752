//! Sentences about tasks: state machine, creating, polling, canceling, history; and inputs and outputs of
//! models beside their types.

use super::Place::{Call, Introduction, Schema, Tag};
use super::Sentence;

const CREATE: &str = "POST /api-key/model/{id}/task";
const ALIAS: &str = "POST /model/{model_id}/task";
const DETAIL: &str = "GET /api-key/task/{id}/detail";
const CANCEL: &str = "DELETE /api-key/task/{id}/cancel";
const HISTORIES: &str = "GET /api-key/task/histories";

pub(super) const SENTENCES: &[Sentence] = &[
    ("A task is one inference run on one model.", Tag("Tasks"), &["one inference run on one model"]),
    (
        "Creating a task returns a task identifier at once. The result is read by polling the task.",
        Tag("Tasks"),
        &["identifier at once", "polling"],
    ),
    (
        "A model's inputs are declared by it.",
        Introduction,
        &["inputs it declares", "until its status is terminal"],
    ),
    (
        "create task | balance sufficient | `in_queue` | task id returned",
        Tag("Tasks"),
        &["| … created … balance suffic … | in_queue | … identifier … returned"],
    ),
    (
        "create task | balance insufficient | call refused with an error, or task created and immediately \
         `failed` | `message` describes the balance problem",
        Tag("Tasks"),
        &["| … created … balance … suffic … | refused … failed … | … message … balance"],
    ),
    (
        "`in_queue` | a serving node picks the task up | `computing`",
        Tag("Tasks"),
        &["| in_queue | … serving node picks the task up | computing |"],
    ),
    (
        "`in_queue` | cancel | `canceled` | not billed",
        Tag("Tasks"),
        &["| in_queue | … canceled | canceled | not billed"],
    ),
    (
        "`computing` | cancel | stays `computing` | cancel cannot interrupt; task runs to completion",
        Tag("Tasks"),
        &["| computing | … cancel … | … computing | … runs to completion"],
    ),
    (
        "`computing` | model produced a result | `success` | `result.result` filled; `cost` meaningful",
        Tag("Tasks"),
        &["| computing | … model … result | success | result.result is filled … cost"],
    ),
    (
        "`computing` | model failed | `failed` | `message` and `result.error` filled; not billed",
        Tag("Tasks"),
        &["| computing | … model fails | failed | message and result.error are filled … not billed"],
    ),
    (
        "`success`, `failed` and `canceled` are terminal.",
        Tag("Tasks"),
        &["success, failed and canceled are terminal"],
    ),
    (
        "Statuses proceed in the order queued, computing, terminal.",
        Tag("Tasks"),
        &["queue … computing … terminal", "order"],
    ),
    (
        "Suggested interval 2 to 5 seconds for fast models, 10 to 30 seconds for long jobs.",
        Tag("Tasks"),
        &["2 to 5 seconds … fast model", "10 to 30 seconds … long job"],
    ),
    (
        "Stop polling as soon as the status is terminal.",
        Tag("Tasks"),
        &["stop as soon as the status is terminal"],
    ),
    ("Task results are obtained by polling the detail.", Call(DETAIL), &["call to poll"]),
    ("JSON body is the model's input object directly.", Call(CREATE), &["body is the model's input object"]),
    ("`data.data` is the id string.", Call(CREATE), &["identifier is at data.data"]),
    (
        "Insufficient balance: the call is refused with an error, or the task is created and becomes `failed` \
         with a message about the balance.",
        Call(CREATE),
        &["insufficient balance … refuse … failed", "message about the balance"],
    ),
    (
        "Numeric input sent as a bare number where the model expects a string: the task call is rejected.",
        Call(CREATE),
        &["not created", "input does not fit"],
    ),
    (
        "Numeric input sent as a bare number where the model expects a string: the task call is rejected.",
        Call(CREATE),
        &["typing rule"],
    ),
    (
        "The path is also shown without the `api-key` segment, with the key header written as `X-API-Key`; \
         body and meaning are the same.",
        Call(ALIAS),
        &["x-api-key", "same … body", "same … meaning"],
    ),
    (
        "A task can be canceled only while queued; it is not billed then.",
        Call(CANCEL),
        &["still in_queue", "not billed"],
    ),
    (
        "Cancel cannot interrupt a computing task; it runs to completion.",
        Call(CANCEL),
        &["computing", "interrupt", "runs to completion"],
    ),
    ("Cancel answers without data.", Call(CANCEL), &["envelope has no data"]),
    ("Page of tasks, ordered oldest first.", Call(HISTORIES), &["oldest first"]),
    ("Records in the task history carry a subset.", Call(HISTORIES), &["records carry a subset"]),
    ("`limit`: default 10, maximum 100.", Call(HISTORIES), &["at most 100"]),
    (
        "On `success` the output is at `result.result` (shape depends on the model).",
        Schema("TaskDetail"),
        &["output of the model … success", "shape depends on the model"],
    ),
    (
        "On `failed`, `result.error` holds the detail and is otherwise null.",
        Schema("TaskDetail"),
        &["detail of the failure … failed … otherwise null"],
    ),
    ("Model list page size: default 10.", Schema("ModelListRequest"), &["10 by default"]),
    (
        "Maximum `limit` of the model list: not shown.",
        Schema("ModelListRequest"),
        &["largest", "not promised"],
    ),
    (
        "A URL of a file goes in, a URL of a generated file comes out.",
        Introduction,
        &["files go in and come out as urls"],
    ),
    ("angle: min 1, max 90.", Schema("ColorHarmonizationInput"), &["from 1 to 90"]),
    ("confidence: min 0, max 1.", Schema("FaceDetectionInput"), &["from 0 to 1"]),
    ("Two views of the same objects.", Schema("FeatureMatchingInput"), &["two views of the same objects"]),
    (
        "`input`: the image used as the new background.",
        Schema("BackgroundReplacementInput"),
        &["the new background"],
    ),
    (
        "`background_path`: the original image whose background is replaced.",
        Schema("BackgroundReplacementInput"),
        &["the original image", "whose background is replaced"],
    ),
    (
        "Text listing of landmark coordinates.",
        Schema("FaceMeshOutput"),
        &["text", "coordinates", "landmarks"],
    ),
    ("`input`: a video.", Schema("VideoEdgeMapInput"), &["the video"]),
    ("`output`: a video file.", Schema("VideoEdgeMapOutput"), &["the video"]),
    (
        "Text list of color codes in hex form.",
        Schema("ColorExtractionOutput"),
        &["text", "color codes in hex form"],
    ),
];
