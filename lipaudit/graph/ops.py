"""The ATen operations that the recognitions take for one and the same: casts, views, softmax."""

from __future__ import annotations

CASTS = {"aten.to.dtype", "aten.to.dtype_layout", "aten._to_copy.default", "aten.type_as.default"}
VIEWS = {
    f"aten.{name}" for name in (
        "view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.default",
        "squeeze.dim", "squeeze.dims", "flatten.using_ints", "unflatten.int", "view_as.default", "reshape_as.default",
    )
}  # fmt: skip
SOFTMAX = {"aten.softmax.int", "aten._softmax.default"}
