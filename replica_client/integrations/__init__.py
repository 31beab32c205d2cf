"""What other tools' ecosystems want: frames, SQL, pipelines. Each module needs the extra that it names."""
