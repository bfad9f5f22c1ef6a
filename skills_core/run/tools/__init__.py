"""What a run can do beside talking: tools, who may call them, and the one gate that every call goes through."""
