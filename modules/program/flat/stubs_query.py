

def llm_query(prompt):
    """Ask a language model. It sees the prompt alone and answers with text."""
    return _portico_post("/llm_query", {"prompt": prompt})
