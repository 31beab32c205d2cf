"""Integrations with other tools: frames, SQL, pipelines. Each module needs the extra that it names."""
