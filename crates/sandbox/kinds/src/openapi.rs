//! Documents of `/openapi/v3`, for built-in kinds and for custom ones.
