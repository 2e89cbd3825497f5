for passage in search_knowledge("where do I put the ashes", top_k=1):
    print(passage["title"] + ", " + passage["section"] + ":", passage["text"])

answer = ask_knowledge("Where is the key of the cabin?")
print(answer["answer"], [source["title"] for source in answer["sources"]])
print(ask_knowledge("Who won the xylophone contest?")["answer"])
