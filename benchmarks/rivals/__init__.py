"""Inference next to other CPU engines: OpenVINO, ExecuTorch, AOTInductor, frozen inductor."""
