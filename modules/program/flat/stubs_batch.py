

def llm_query_batch(prompts):
    """Ask a language model several questions, a few at a time. The answers come
    in the order of the prompts."""
    from concurrent.futures import ThreadPoolExecutor

    if isinstance(prompts, (str, bytes)):
        raise TypeError("llm_query_batch() takes a list of prompts, not one")
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(llm_query, prompts))
