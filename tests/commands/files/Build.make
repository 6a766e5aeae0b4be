# What the pages' commands take for granted, made where they run.
programs: app server bin/PROGRAM $(if $(shell command -v javac),app.jar)

app server: %: %.c
	gcc -g -DGC_DEBUG $< -o $@ -lgc -pthread

app.jar: App.java
	javac App.java
	jar cfe app.jar App App.class

# Any program on libgc.
bin/PROGRAM: app
	cp $< $@
