"""The papers' applications, each declared in Millrace's public API, and the workloads that drive them."""
