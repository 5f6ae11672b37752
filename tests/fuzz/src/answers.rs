//! Answers of the service: the name of an operation on the first line, then its body.

use inferstore_api::{Envelope, NoData, types};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::must_be_read;
use crate::first_line;

/// What is in an answer as it came, and is not among what the types announce to keep digit by digit.
const FREE: [&str; 4] = ["input_data", "result", "model_metadata", "num_config"];

/// No body makes a reader panic. Whatever says which thing it is about and deviates without harm is read.
/// What is read goes out with every digit that came in, and is read again as the same.
pub fn answers(data: &[u8]) {
    let (operation, body) = first_line(data);
    match operation {
        b"getBalance" => read::<Envelope<types::AccountBalance>>("BalanceResponse", body),
        b"listModels" => read::<Envelope<types::ModelPage>>("ModelListResponse", body),
        b"getModel" => read::<Envelope<types::ModelDetail>>("ModelResponse", body),
        b"getModelCost" => read::<Envelope<types::TaskCost>>("TaskCostResponse", body),
        b"getModelServing" => read::<Envelope<types::ServingStatus>>("ServingStatusResponse", body),
        b"getModelVersioning" => read::<Envelope<types::ModelVersioning>>("ModelVersioningResponse", body),
        b"createTask" => read::<Envelope<types::TaskCreated>>("TaskCreatedResponse", body),
        b"getTask" => read::<Envelope<types::TaskDetail>>("TaskResponse", body),
        b"listTasks" => read::<Envelope<types::TaskPage>>("TaskListResponse", body),
        b"createPresignedUpload" => read::<Envelope<types::PresignedUpload>>("PresignedUploadResponse", body),
        b"listFiles" => read::<Envelope<types::FileListing>>("FileListResponse", body),
        b"getStorageStatistics" => {
            read::<Envelope<types::StorageStatistics>>("StorageStatisticsResponse", body);
        }
        _ => read::<Envelope<NoData>>("Acknowledgement", body),
    }
}

fn read<T: DeserializeOwned + Serialize>(name: &str, body: &[u8]) {
    if let Ok(answer) = serde_json::from_slice::<Value>(body)
        && must_be_read(name, &answer)
    {
        // As it would be written by somebody who names nothing twice.
        let written = answer.to_string();
        if let Err(error) = serde_json::from_str::<T>(&written) {
            panic!("{name} refuses {written}: {error}");
        }
    }
    let (Ok(text), Ok(answer)) = (std::str::from_utf8(body), serde_json::from_slice::<T>(body)) else {
        return;
    };
    let written = serde_json::to_string(&answer).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(serde_json::to_string(&again).ok().as_ref(), Some(&written), "it is read as another");
    nothing_is_lost(text, &written);
}

type Members<'a> = std::collections::BTreeMap<String, &'a RawValue>;

/// Whether every value that goes out is the one that came in, digit by digit.
fn nothing_is_lost(came: &str, goes: &str) {
    // A parameter of which nothing is said is there all the same.
    if (came, goes) == ("null", "{}") {
        return;
    }
    if let Ok(going) = serde_json::from_str::<Members<'_>>(goes) {
        let Ok(coming) = serde_json::from_str::<Members<'_>>(came) else { panic!("{goes} came of {came}") };
        for (name, value) in going.iter().filter(|(name, _)| !FREE.contains(&name.as_str())) {
            let before = coming.get(name).map_or("null", |value| value.get());
            nothing_is_lost(before, value.get());
        }
    } else if let Ok(going) = serde_json::from_str::<Vec<&RawValue>>(goes) {
        let coming: Vec<Option<&RawValue>> = serde_json::from_str(came).expect("a list came of a list");
        let coming: Vec<&RawValue> = coming.into_iter().flatten().collect();
        assert_eq!(going.len(), coming.len(), "{came} became {goes}");
        for (going, coming) in going.iter().zip(coming) {
            nothing_is_lost(coming.get(), going.get());
        }
    } else {
        let plain = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.to_owned());
        let (came, goes) = (plain(came), plain(goes));
        let is_a_count = goes.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
            && came.parse() == goes.parse::<inferstore_api::Decimal>();
        // A field that was not there may go out as null.
        assert!(came == goes || came.trim() == goes || is_a_count, "{came} became {goes}");
    }
}
