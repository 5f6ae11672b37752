//! Input files of models that take pictures.

use inferstore_models::{Error, Input, Inputs, Limits, Output, built_in};

/// Invariant: no file makes a model panic or exceed its limits; the model returns a result, or an error that
/// names the input.
pub fn pictures(data: &[u8]) {
    let model =
        built_in().into_iter().find(|model| model.kind() == "color-extraction").expect("it is built in");
    let inputs: Inputs = [("input", Input::File(data.to_vec()))].into_iter().collect();
    let limits = Limits { pixels: 64 * 64, memory: 8 << 20, ..Limits::default() };
    match model.run(&inputs, &limits) {
        Ok(outputs) => assert!(matches!(&outputs[..], [("output", Output::Text(_))])),
        Err(Error::Failed { reason }) => panic!("the model cannot tell what is wrong: {reason}"),
        Err(error) => assert!(error.to_string().contains("input"), "{error}"),
    }
}
