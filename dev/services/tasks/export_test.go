package tasks

// Answers are what the scripted model says of a task, rightly and wrongly.
func Answers(t Task) (right, wrong string) { return t.script.answer, t.script.wrong }
