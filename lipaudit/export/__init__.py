"""Reports in the formats of other tools: model cards, bills of materials, findings, test results."""
