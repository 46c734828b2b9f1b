//! Ops as people and other programs read them: iproute2 command lines, marked text, JSON.
