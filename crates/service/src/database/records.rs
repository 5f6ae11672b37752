//! Records that are read from rows of an engine.

/// Returns a record whose fields are columns of a row in this order, from the first one or from another. `get` is the
/// method of the row; a field with `/ function` is what the function makes of its column.
macro_rules! record {
    (@ $value:expr) => { $value };
    (@ $value:expr, $convert:ident) => { $convert($value) };
    ($get:ident $row:ident, $($record:tt)*) => {
        $crate::database::records::record!($get $row from 0, $($record)*)
    };
    ($get:ident $row:ident from $first:expr, $type:ident: $($field:ident $(/ $convert:ident)?)*) => {{
        let mut columns = $first..;
        let mut next = || columns.next().unwrap_or(usize::MAX);
        $type {
            $($field: $crate::database::records::record!(@ $row.$get(next())? $(, $convert)?)),*
        }
    }};
}

pub(super) use record;
