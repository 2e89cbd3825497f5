package catalogue

import (
	"fmt"
	"strings"

	"github.com/kljensen/snowball/english"
)

// lexicon is what is known of English.
type lexicon struct {
	stopped map[string]bool
	groups  map[string][]string // the names of a stem's groups
	// known are the stems of words while an index is made; nil afterwards.
	known map[string]string
}

func newLexicon() lexicon { return lexicon{wordSet(stopped), groupsOf(groups), map[string]string{}} }

const (
	// stopped are words that say nothing about a tool.
	stopped = `a an the of to in on at by for from with into onto and or as is are was be been it its this that these
	those my me our your their his her we you they which who whom what when where how can could should would will do does
	did i want need please all any some there than then so if not no about out up via using use used`

	// groups are words that mean nearly the same where tools are described, a
	// line each. A word may be in several groups.
	groups = `
	list get fetch show retrieve read view see display obtain return enumerate load give tell browse
	create add new make insert generate build establish set initialise register
	delete remove drop erase clear purge destroy wipe discard uninstall revoke unset
	update edit change modify alter adjust patch revise amend
	put set store save write upload keep record persist
	search find look seek query discover locate lookup hunt
	send post publish submit share deliver
	run execute start launch invoke trigger perform begin kick
	stop cancel abort terminate end kill halt close quit
	rename retitle relabel
	copy clone duplicate fork
	move transfer relocate
	merge combine join unite fuse
	compare diff difference
	count total number amount many
	check verify test validate examine inspect probe
	explain describe clarify document
	connect link attach bind open
	disconnect detach close unlink
	install deploy ship release
	upgrade update renew refresh
	wait pause delay
	reply respond answer
	assign delegate allocate
	click press push tap hit
	type enter write fill
	download fetch retrieve
	crawl scrape traverse harvest extract
	summarise summary summarizer summarize digest abstract condense
	picture image photo photograph screenshot illustration
	video clip movie film footage
	news headline article press
	folder directory
	file document
	page website site web webpage internet online
	url link address
	repository repo project
	issue bug ticket problem defect
	comment remark note feedback
	message note
	reaction emoji
	user person people member account
	organisation organization org company
	database db store
	secret password credential confidential
	variable setting env environment configuration config option parameter
	schedule cron timetable recurring periodically alarm
	map structure sitemap layout
	log logs trace journal
	history past earlier previous
	version revision release
	rollback revert undo restore back
	size space storage
	index indexes indices
	table collection
	row record document entry
	field column attribute
	relation relationship connection link edge
	entity node
	graph network
	alert warning alarm
	vulnerability security advisory
	notification inbox
	pull pr
	code source program script
	model ai llm
	metadata detail information info property
	time date
	place location spot nearby local
	window viewport screen
	form input field
	key keyboard button
	queue backlog
	bucket container
	domain hostname host
	paper study publication
	research investigate investigation study
	sum add plus
	hello greet hi welcome
	echo repeat
	think thought thinking reason reasoning
	monitor watch track observe
	status state progress
	statistic stats analytics metric figure
	plan strategy
	vector embedding embed
	text words sentence wording
	compress gzip zip shrink
	toggle switch enable disable
	scale resize replica
	branch fork
	label tag
	star favourite favorite bookmark
	dialog popup prompt alert
	hover mouse pointer
	team group
	several multiple many bulk batch simultaneously
	new newest latest recent last current
	nested tree hierarchy recursive recursively structure
	size sizes large largest big biggest byte bytes
	everything whole entire complete all
	sample template example
	application app package
	machine node host server
	error exception failure fail problem
	allow permit access permission
	sentence paragraph text
	artificial intelligence ai
	begin start
	remark comment
`
)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// groupsOf reads groups, a line each, and names them so that no word is one.
func groupsOf(text string) map[string][]string {
	groups := map[string][]string{}
	for i, line := range strings.Split(text, "\n") {
		seen := map[string]bool{}
		for w := range strings.FieldsSeq(line) {
			if stem := english.Stem(w, false); !seen[stem] {
				seen[stem] = true
				groups[stem] = append(groups[stem], fmt.Sprint("~", i))
			}
		}
	}
	return groups
}
